"""The import contracts name every folder, and `lint-imports` fails when a folder imports one that it must not."""

import pathlib
import re
import shutil
import subprocess
import tomllib

import pytest

from tests.places import BIN, LIMIT_S, REPOSITORY

CONTRACTS = {
    contract["name"]: contract
    for contract in tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}
PLANTED = {
    "engine/history/planted.py": "import fallow.engine.fill.loop",
    "engine/nowhere/__init__.py": "",
    "policies/planted.py": "import fallow.readers.proc",
    "core/planted.py": "import os",
    "actuators/claims/planted.py": "import fallow.actuators.host.power",
    "interfaces/render/planted.py": "import fallow.interfaces.web.app",
}


def folders(package: str) -> set[str]:
    """Return the folders and files of a package, as a contract names them."""
    inside = (REPOSITORY / "src" / package.replace(".", "/")).iterdir()
    return {path.stem for path in inside if path.is_dir() or path.suffix == ".py"} - {"__init__", "__pycache__"}


@pytest.mark.parametrize("name", [name for name, contract in CONTRACTS.items() if contract["type"] == "layers"])
def test_a_contract_about_layers_names_every_folder(name: str) -> None:
    contract = CONTRACTS[name]
    named = {folder for layer in contract["layers"] for folder in re.split(r"[ |:]+", layer)}
    assert contract["exhaustive"]
    for package in contract["containers"]:
        data = {"examples", "py"} if package == "fallow" else set()
        assert named == folders(package) - data


def test_every_contract_breaks_when_an_import_is_planted_that_it_forbids(tmp_path: pathlib.Path) -> None:
    shutil.copytree(REPOSITORY / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    for file, line in PLANTED.items():
        path = tmp_path / "src" / "fallow" / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{line}\n")
    done = subprocess.run(
        [BIN / "lint-imports", "--no-cache"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert {name for name in CONTRACTS if f"{name} BROKEN" in done.stdout} == set(CONTRACTS)
    for said in ("fallow.engine.history is not allowed to import fallow.engine.fill", "fallow.engine.nowhere"):
        assert said in " ".join(done.stdout.split())
