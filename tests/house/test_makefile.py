"""`make` works in the .venv of its own clone, whatever people have set for other programs."""

import os
import pathlib
import shutil
import subprocess

import pytest

from tests.places import LIMIT_S, REPOSITORY

LEAD_ELSEWHERE = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PYTHONPATH", "PYTHONHOME")
NEEDED = ("Makefile", "pyproject.toml", "requirements/run.txt")


def make(folder: pathlib.Path, *words: str, **variables: str) -> list[str]:
    done = subprocess.run(
        ["make", "--no-print-directory", *words],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", LEAD_ELSEWHERE)
def test_what_leads_pip_or_python_elsewhere_does_not_reach_them(name: str) -> None:
    told = make(REPOSITORY, "--eval=told: ; @env", "told", **{name: "1", "PIP_INDEX_URL": "kept"})
    assert "PIP_INDEX_URL=kept" in told
    assert [line for line in told if line.startswith(f"{name}=")] == []


def test_a_clone_that_was_copied_or_moved_gets_an_environment_of_its_own(tmp_path: pathlib.Path) -> None:
    """The environment names its place: it would run the code that is where the clone was."""
    clone = tmp_path / "Größe und 100% Gewicht"
    for name in NEEDED:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, clone / name)
    (clone / ".venv").mkdir()
    (clone / ".venv" / ".runs").write_text(f"{clone}\n")
    assert [line.split()[-1] for line in make(clone, "-n", "demo")] == ["demo"]
    moved = clone.rename(tmp_path / "moved")
    anew = make(moved, "-n", "demo", PYTHON="python3")
    assert anew.index("rm -rf .venv") < anew.index("python3 -m venv .venv")
