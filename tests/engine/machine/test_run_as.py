"""The files that root looks at before it runs a command as another user, who can change them."""

import os
import pathlib
import shutil
from threading import Thread

from inotify_simple import INotify, flags

from fallow.engine.machine.run_as import files_of
from tests.places import LIMIT_S


def test_a_pipe_in_place_of_a_program_keeps_nobody_waiting(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "embed"
    os.mkfifo(program)
    program.chmod(0o755)
    found: list[str] = []
    looking = Thread(target=lambda: found.extend(files_of([str(program)], None, "/bin")), daemon=True)
    looking.start()
    looking.join(LIMIT_S)
    assert found == [str(program)]


def test_what_is_no_plain_file_is_not_opened_in_place_of_a_program(tmp_path: pathlib.Path) -> None:
    """A link to a device had root open it: a watchdog resets the machine when it is closed again."""
    program = tmp_path / "embed"
    os.mkfifo(program)
    program.chmod(0o755)
    with INotify() as opens:
        opens.add_watch(program, flags.OPEN)
        assert list(files_of([str(program)], None, "/bin")) == [str(program)]
        assert opens.read(timeout=0) == []


def test_the_interpreter_of_a_script_is_among_the_files_that_are_run(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "embed"
    for first_line, interpreter in {
        "#!/opt/python -u": "/opt/python",
        "#! /usr/bin/env sh": shutil.which("sh"),
    }.items():
        program.write_text(f"{first_line}\nimport torch\n")
        program.chmod(0o755)
        assert list(files_of([str(program)], None, os.environ["PATH"]))[-1] == interpreter
