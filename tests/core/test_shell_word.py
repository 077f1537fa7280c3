"""A refusal that tells a command to paste names its path as one word of a shell, also where it has a space."""

import pathlib
import shlex
from collections.abc import Callable

import pytest

from fallow.actuators.files.own_folder import own_folder
from fallow.actuators.process.spawn import find
from fallow.core.errors import FallowError
from fallow.readers.secret import read_token


@pytest.mark.parametrize(
    ("refuses", "is_folder"),
    [(own_folder, True), (lambda path: find([path], {}), False), (read_token, False)],
    ids=["state", "program", "token"],
)
def test_a_path_with_a_space_is_one_word(
    tmp_path: pathlib.Path, refuses: Callable[[str], object], is_folder: bool
) -> None:
    path = tmp_path / "Größe und Gewicht"
    path.mkdir() if is_folder else path.touch()
    path.chmod(0o777 if is_folder else 0o644)
    with pytest.raises(FallowError) as refused:
        refuses(str(path))
    assert shlex.split(str(refused.value).rpartition("chmod ")[2])[1] == str(path)
