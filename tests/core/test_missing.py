"""The command that installs a missing package can be pasted into a shell."""

import pathlib
import shlex
import subprocess
import sys

from tests.places import LIMIT_S, REPOSITORY


def test_a_python_in_a_folder_with_a_space_is_one_word(tmp_path: pathlib.Path) -> None:
    python = tmp_path / "Größe und Gewicht" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    done = subprocess.run(
        [python, "-c", "from fallow.core.missing import remedy; print(remedy('cuda'))"],
        env={"PYTHONPATH": str(REPOSITORY / "src"), "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    words = shlex.split(done.stdout)
    assert str(python) in words
    assert words[-1] == "cuda-bindings>=12.8"
