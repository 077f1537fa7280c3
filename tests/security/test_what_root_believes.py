"""Promise 2: root believes a file only where nobody but root could have written it."""

import os
import pathlib
import subprocess
from collections.abc import Callable

import pytest

from tests.interfaces.cli.filled import Fill
from tests.places import BIN, LIMIT_S
from tests.security.machine import ADA, Machine
from tests.waiting import until

pytestmark = pytest.mark.as_root
KINDS = ("config", "token", "program")


class Files:
    """What root's daemon is told to believe: a config that names a token and a program, each in folders of root."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.config, self.token, self.program = (folder / name / "below" / name for name in KINDS)
        self.ran = folder / "ran"
        for file in (self.config, self.token, self.program):
            file.parent.mkdir(parents=True)
        self.token.write_text("a-token-that-nobody-guesses")
        self.program.write_text(f"#!/bin/sh\ntouch {self.ran}\nexec sleep 1000\n")
        self.config.write_text(
            f"[page]\ntoken_file = '{self.token}'\n"
            f"[[filler]]\nname = 'work'\nuser = 'root'\ncommand = '{self.program}'\nidle_for = 0\ngpus = 0\n"
        )
        for file, mode in ((self.config, 0o600), (self.token, 0o600), (self.program, 0o755)):
            file.chmod(mode)


@pytest.fixture
def files(machine: Machine) -> Files:
    folder = machine.folder / "etc"
    folder.mkdir(mode=0o755)
    return Files(folder)


def others_write_it(file: pathlib.Path) -> None:
    file.chmod(file.stat().st_mode | 0o022)


def a_folder_above_is_adas(file: pathlib.Path) -> None:
    os.chown(file.parent.parent, ADA, ADA)


def a_link_of_adas_is_on_the_way(file: pathlib.Path) -> None:
    real = file.parent.rename(file.parent.parent / "real")
    file.parent.symlink_to(real)
    os.lchown(file.parent, ADA, ADA)


def up(machine: Machine, files: Files) -> "subprocess.Popen[str]":
    words = ("up", "--config", str(files.config), "--listen", "127.0.0.1:0")
    return machine.start(0, str(BIN / "fallow"), *words)


def test_what_only_root_could_have_written_is_believed_and_run(machine: Machine, files: Files) -> None:
    daemon = Fill(up(machine, files))
    daemon.until("the page is at")
    until(files.ran.exists)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spoil", [others_write_it, a_folder_above_is_adas, a_link_of_adas_is_on_the_way])
def test_what_another_user_could_have_written_is_neither_believed_nor_run(
    machine: Machine, files: Files, kind: str, spoil: Callable[[pathlib.Path], None]
) -> None:
    spoil(getattr(files, kind))
    daemon = up(machine, files)
    if kind == "token":
        Fill(daemon).until("there is no page: ")
        return
    _, err = daemon.communicate(timeout=LIMIT_S)
    assert daemon.returncode == 78
    assert "others may write to" in err or "belongs to another user" in err
    assert "Traceback" not in err
    assert not files.ran.exists()
