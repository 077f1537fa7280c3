"""The pages for contributors say what is so: folders, files and layers."""

import re
import tomllib

import pytest

from tests.places import REPOSITORY

CONTRIBUTING = REPOSITORY / "docs" / "contributing"
PAGES = [
    REPOSITORY / "CONTRIBUTING.md",
    *CONTRIBUTING.glob("*.md"),
    *(REPOSITORY / "docs" / "decisions").glob("*.md"),
]
FOLDERS = "core|policies|readers|actuators|engine|interfaces|workloads|compat|examples"


@pytest.mark.parametrize("package", ["fallow", "fallow.engine", "fallow.actuators", "fallow.interfaces"])
def test_the_page_on_architecture_shows_the_layers_of_the_contracts(package: str) -> None:
    config = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    (layers,) = (
        contract["layers"]
        for contract in config["tool"]["importlinter"]["contracts"]
        if contract.get("containers") == [package]
    )
    page = (CONTRIBUTING / "architecture.md").read_text()
    (drawn,) = re.findall(rf"```layers {re.escape(package)}\n(.*?)```", page, re.DOTALL)
    assert drawn.splitlines() == layers


def test_every_folder_of_the_engine_is_explained() -> None:
    page = (CONTRIBUTING / "architecture.md").read_text()
    inside = (REPOSITORY / "src" / "fallow" / "engine").iterdir()
    folders = {path.name for path in inside if path.is_dir() and path.name != "__pycache__"}
    assert set(re.findall(r"^\| `engine/(\w+)` \|", page, re.MULTILINE)) == folders


def test_every_file_that_the_pages_name_is_there() -> None:
    missing = []
    for page in PAGES:
        for name in re.findall(rf"`(?:src/fallow/)?((?:{FOLDERS})/[\w/]*(?:\.\w+)?)`", page.read_text()):
            if not (REPOSITORY / "src" / "fallow" / name).exists() and "NAME" not in name:
                missing.append(f"{page.name}: {name}")
        for name in re.findall(r"`((?:tests|scripts|bench|docs)/[\w/.-]+)`", page.read_text()):
            if not (REPOSITORY / name).exists() and "NAME" not in name:
                missing.append(f"{page.name}: {name}")
    assert missing == []
