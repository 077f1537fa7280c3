"""Wheel and sdist have all that runs, say what they are, and are the same bytes wherever they are built."""

import email.message
import email.parser
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
from trove_classifiers import classifiers

import fallow
from fallow.engine.machine.installation import COMPLETION, MAN
from fallow.interfaces.cli.main import COMMANDS
from tests.places import BUILD_S, REPOSITORY

pytestmark = pytest.mark.more

MADE_S = "1763300000"
NOT_NEEDED = ("tests/", "bench/", "docs/images/")


def copied(to: pathlib.Path) -> pathlib.Path:
    """The files of this repository, in another folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        if (REPOSITORY / name).is_file() and not name.startswith(NOT_NEEDED):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(REPOSITORY / name, to / name)
    return to


def build(source: pathlib.Path, to: pathlib.Path, mask: str) -> list[pathlib.Path]:
    """Build both, by a person who lets others read more or less."""
    subprocess.run(
        [
            "/bin/sh",
            "-c",
            f'umask {mask}; exec "$@"',
            "sh",
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "-d",
            str(to),
        ],
        cwd=source,
        env={"SOURCE_DATE_EPOCH": MADE_S, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
        timeout=BUILD_S,
    )
    return sorted(to.iterdir())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[pathlib.Path]:
    """The wheel and the sdist."""
    source = copied(tmp_path_factory.mktemp("source"))
    return build(source, tmp_path_factory.mktemp("built"), "022")


@pytest.fixture(scope="module")
def about(built: list[pathlib.Path]) -> email.message.Message:
    with zipfile.ZipFile(built[0]) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return email.parser.Parser().parsestr(wheel.read(name).decode())


@pytest.mark.more
def test_the_same_sources_give_the_same_bytes(built: list[pathlib.Path], tmp_path: pathlib.Path) -> None:
    again = build(copied(tmp_path / "another place" / "source"), tmp_path / "built", "077")
    assert [path.name for path in again] == [path.name for path in built]
    assert [path.read_bytes() == other.read_bytes() for path, other in zip(built, again, strict=True)] == [True, True]


def test_the_wheel_has_all_that_runs_and_all_that_is_read(built: list[pathlib.Path]) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        names = set(wheel.namelist())
    source = REPOSITORY / "src"
    needed = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert {
        f"fallow/examples/{name}" for name in ("fallow.service", "fallow.toml", "grafana.json", "alerts.yml")
    } < needed
    data = f"fallow-{fallow.__version__}.data/data"
    needed |= {f"{data}/{path}" for path in COMPLETION.values()}
    needed |= {f"{data}/{MAN}/{name}.1" for name in ("fallow", *(f"fallow-{command}" for command in COMMANDS))}
    assert needed - names == set()
    assert {name for name in names if "__pycache__" in name} == set()


def test_the_sdist_has_what_builds_the_wheel(built: list[pathlib.Path]) -> None:
    with tarfile.open(built[1]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "src/fallow/__init__.py"} <= names


def test_they_say_what_they_are(about: email.message.Message) -> None:
    assert about["Name"] == "fallow"
    assert about["Version"] == fallow.__version__
    assert about["License-Expression"] == "MIT"
    assert about["Requires-Python"] == ">=3.11"
    assert about["Description-Content-Type"] == "text/markdown"
    said = about.get_all("Classifier") or []
    assert said
    assert set(said) <= set(classifiers)


def test_the_version_stands_in_one_place() -> None:
    listed = subprocess.run(
        ["git", "grep", "-lE", rf"version.{{0,4}} = .{fallow.__version__}.", "--", "*.py", "*.toml", "*.in"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert listed.stdout.split() == ["src/fallow/__init__.py"]
