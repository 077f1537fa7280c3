"""`make` works in the .venv of its own clone, whatever people have set for other programs."""

import os
import pathlib
import shutil
import subprocess

import pytest

from tests.places import LIMIT_S, REPOSITORY

LEAD_ELSEWHERE = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PYTHONPATH", "PYTHONHOME")
LIKE_PYTHON = """#!/bin/sh
case "$*" in
"-m venv .venv") mkdir -p .venv/bin ;;
"-m venv --clear .venv") echo '#!/bin/sh' > .venv/bin/pip; chmod +x .venv/bin/pip ;;
esac
"""
"""Makes an environment without pip, as Python does where a part of pip is there, unless it shall make it anew."""
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


@pytest.fixture
def clone(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a folder with what `make demo` reads."""
    folder = tmp_path / "Größe und 100% Gewicht"
    for name in NEEDED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, folder / name)
    return folder


def test_an_installation_that_was_interrupted_is_made_anew(clone: pathlib.Path) -> None:
    (clone / "python").write_text(LIKE_PYTHON)
    (clone / "python").chmod(0o755)
    make(clone, ".venv/.runs", PYTHON="./python")
    assert (clone / ".venv" / ".runs").read_text() == f"{clone}\n"


def test_a_clone_that_was_copied_or_moved_gets_an_environment_of_its_own(clone: pathlib.Path) -> None:
    """The environment names its place: it would run the code that is where the clone was."""
    (clone / ".venv").mkdir()
    (clone / ".venv" / ".runs").write_text(f"{clone}\n")
    assert [line.split()[-1] for line in make(clone, "-n", "demo")] == ["demo"]
    moved = clone.rename(clone.parent / "moved")
    anew = make(moved, "-n", "demo", PYTHON="python3")
    assert anew.index("rm -rf .venv") < anew.index("python3 -m venv .venv")
