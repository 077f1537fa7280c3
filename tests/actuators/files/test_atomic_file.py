"""A file is replaced whole or not at all."""

import os
import pathlib
import stat

import pytest

from fallow.actuators.files.atomic_file import replace_file


def test_a_file_that_cannot_be_written_stays_as_it_was(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "record"
    replace_file(str(file), "the last one")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(str(file), "the next one")
    assert file.read_text() == "the last one"
    assert os.listdir(tmp_path) == ["record"]
