"""The files that root looks at before it runs a command as another user, who can change them."""

import os
import pathlib
import shutil
from threading import Thread

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


def test_the_interpreter_of_a_script_is_among_the_files_that_are_run(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "embed"
    for first_line, interpreter in {
        "#!/opt/python -u": "/opt/python",
        "#! /usr/bin/env sh": shutil.which("sh"),
    }.items():
        program.write_text(f"{first_line}\nimport torch\n")
        program.chmod(0o755)
        assert list(files_of([str(program)], None, os.environ["PATH"]))[-1] == interpreter
