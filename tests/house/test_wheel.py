"""The wheel has all that runs, and the version stands in one place; .ci/run installs it."""

import pathlib
import subprocess
import sys
import zipfile

import pytest

import fallow
from tests.places import BUILD_S, REPOSITORY


@pytest.mark.more
def test_the_wheel_has_all_that_runs_and_all_that_is_read(tmp_path: pathlib.Path) -> None:
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(words, cwd=REPOSITORY, capture_output=True, check=True, timeout=BUILD_S)
    (built,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(built) as wheel:
        names = set(wheel.namelist())
    source = REPOSITORY / "src"
    needed = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert "fallow/examples/fallow.toml" in needed
    assert needed - names == set()


def test_the_version_stands_in_one_place() -> None:
    listed = subprocess.run(
        ["git", "grep", "-lE", rf"version.{{0,4}} = .{fallow.__version__}.", "--", "*.py", "*.toml", "*.in"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert listed.stdout.split() == ["src/fallow/core/version.py"]
