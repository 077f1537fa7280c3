"""fallow installs with pip and with uv, typed, with its command."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests.conftest import BIN, REPOSITORY


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("wheel")
    words = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), "."]
    subprocess.run(words, cwd=REPOSITORY, check=True, capture_output=True)
    (found,) = folder.glob("fallow-*.whl")
    return found


@pytest.mark.parametrize("installer", [[sys.executable, "-m", "pip"], [str(BIN / "uv"), "pip"]], ids=["pip", "uv"])
def test_it_installs_and_runs(installer: list[str], wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    target = tmp_path / "site"
    words = [*installer, "install", "-q", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run(words, check=True, capture_output=True)
    assert (target / "fallow" / "py.typed").exists()
    assert (target / "fallow" / "examples" / "fallow.toml").exists()
    assert (target / "fallow" / "examples" / "fallow.service").exists()
    assert (target / "fallow" / "faces" / "templates" / "report.html").exists()
    for name in ("templates/page.html", "templates/parts/card.html", "static/page.css", "static/page.js"):
        assert (target / "fallow" / "faces" / "web" / name).exists()
    command = [sys.executable, str(target / "bin" / "fallow"), "--version"]
    environ = {**os.environ, "PYTHONPATH": str(target)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("fallow ")
