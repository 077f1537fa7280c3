"""fallow installs with pip and with uv, typed, with its command."""

import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement

from tests.conftest import Fallow
from tests.packaging.node_image import pack
from tests.places import BIN, BUILD_S, REPOSITORY

pytestmark = pytest.mark.more


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """fallow as pip builds it, in an environment of its own; what builds it comes from here instead of an index."""
    folder, builders = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("builders")
    seen: set[str] = set()
    for line in tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["build-system"]["requires"]:
        for needed in belonging(line, seen):
            pack(needed.name, builders)
    words = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), "."]
    environ = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(builders)}
    done = subprocess.run(words, cwd=REPOSITORY, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("fallow-*.whl")
    return found


def test_pip_builds_it_beside_a_fallow_that_is_installed_in_place(wheel: pathlib.Path) -> None:
    """Of the environment that pip runs in, pip hides all from a build, and this `src` is part of it."""
    about = importlib.metadata.distribution("fallow").read_text("direct_url.json")
    assert json.loads(str(about))["dir_info"] == {"editable": True}
    with zipfile.ZipFile(wheel) as packed:
        assert [name for name in packed.namelist() if name.endswith("/man1/fallow.1")] != []


@pytest.mark.parametrize("installer", [[sys.executable, "-m", "pip"], [str(BIN / "uv"), "pip"]], ids=["pip", "uv"])
def test_it_installs_and_runs(installer: list[str], wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    target = tmp_path / "site"
    words = [*installer, "install", "-q", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run(words, check=True, capture_output=True)
    source = REPOSITORY / "src" / "fallow"
    ours = {path.relative_to(source) for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert pathlib.Path("interfaces/web/templates/page.html") in ours
    assert {path for path in ours if not (target / "fallow" / path).exists()} == set()
    command = [sys.executable, str(target / "bin" / "fallow"), "--version"]
    environ = {**os.environ, "PYTHONPATH": str(target)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("fallow ")


def belonging(line: str, seen: set[str]) -> Iterator[importlib.metadata.Distribution]:
    """The distribution that is wanted, as it is installed here, and all that pip would install with it."""
    wanted = Requirement(line)
    if wanted.name in seen:
        return
    seen.add(wanted.name)
    distribution = importlib.metadata.distribution(wanted.name)
    yield distribution
    for needed in distribution.requires or []:
        marker = Requirement(needed).marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)):
            yield from belonging(needed, seen)


@pytest.fixture(scope="module")
def plain(wheel: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with fallow and what its wheel depends on, and nothing else: as `pip install .` makes it."""
    site = tmp_path_factory.mktemp("plain")
    words = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(words, check=True, capture_output=True)
    (metadata,) = importlib.metadata.distributions(path=[str(site)])
    seen: set[str] = set()
    for line in metadata.requires or []:
        if "extra ==" in line:
            continue
        for distribution in belonging(line, seen):
            for file in distribution.files or []:
                first = file.parts[0]
                if first not in ("..", "__pycache__") and not (site / first).exists():
                    (site / first).symlink_to(distribution.locate_file(first))
    return site


CONFIG_OF_GPU_MON = "[process-one]\ncmd=sleep 1000\ngpus=ALL\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["check", "fallow.toml"], "no mistakes"),
        (["up", "--for", "1s", "--listen", "127.0.0.1:0"], "the page is at http://127.0.0.1:"),
        (["report", "--format", "html", "-o", "report.html"], ""),
        (["report", "--format", "csv"], "gpu"),
        (["compat", "gpu_mon", "-c", "gpu_mon.conf", "--print-config"], "process-one"),
        (["run", "--dump-stacks", "--idle-timeout", "1h", "--then", "notify:ntfy://topic", "--", "true"], ""),
        (["doctor"], "all that fallow needs are installed"),
    ],
    ids=lambda each: " ".join(each[:2]) if isinstance(each, list) else "",
)
def test_a_plain_installation_has_all_but_the_bindings_of_cuda(
    words: list[str], says: str, plain: pathlib.Path, fallow: Fallow, tmp_path: pathlib.Path
) -> None:
    """F4, F26"""
    (tmp_path / "gpu_mon.conf").write_text(CONFIG_OF_GPU_MON)
    (tmp_path / "fallow.toml").write_text("[machine]\nevery = '1s'\n")
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-m", "fallow", *words],
        env={**fallow.environ, "PYTHONPATH": str(plain), "FALLOW_SIMULATE": "2xH100"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert says in done.stdout + done.stderr
    assert "not installed" not in done.stderr


def test_only_the_bindings_of_cuda_are_an_extra(wheel: pathlib.Path, plain: pathlib.Path) -> None:
    """F4"""
    (metadata,) = importlib.metadata.distributions(path=[str(plain)], name="fallow")
    assert metadata.metadata.get_all("Provides-Extra") == ["burn"]
