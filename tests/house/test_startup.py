"""Start-up time is a feature: what is not needed is not loaded."""

import subprocess
import sys

import pytest

from tests.conftest import Fallow
from tests.standin import World

HEAVY = (
    "rich",
    "textual",
    "pydantic",
    "uvicorn",
    "starlette",
    "jinja2",
    "asyncio",
    "logging",
    "dataclasses",
    "inspect",
    "json",
    "difflib",
    "datetime",
    "shutil",
)


def loaded_by(fallow: Fallow, program: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules, file=sys.stderr)"],
        env=fallow.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.split())


def test_importing_fallow_loads_next_to_nothing(fallow: Fallow) -> None:
    loaded = loaded_by(fallow, "import fallow")
    assert loaded.isdisjoint(HEAVY)
    assert not any(name.startswith("fallow.") for name in loaded)


@pytest.mark.parametrize("words", [["pick"], ["pick", "-n", "3", "--format", "env"]])
def test_pick_loads_nothing_heavy(world: World, fallow: Fallow, words: list[str]) -> None:
    loaded = loaded_by(fallow, f"from fallow.interfaces.cli.main import main\nassert main({words}) == 0")
    assert loaded.isdisjoint(HEAVY), loaded & set(HEAVY)
    assert "fallow.readers.nvml_library" in loaded
    assert loaded.isdisjoint({"pynvml", "ctypes.util", "locale", "rich", "typing", "threading", "shutil", "datetime"})
    assert "fallow.engine.client.daemon_client" not in loaded, "pick never asks the daemon"


def test_what_asks_the_daemon_loads_nothing_of_a_cluster(fallow: Fallow) -> None:
    loaded = loaded_by(fallow, "import fallow.engine.client.daemon_client")
    assert loaded.isdisjoint({"fallow.core.cluster_view", "http.client", "msgspec"})


def test_no_command_loads_what_only_top_draws_with_before_it_draws(fallow: Fallow) -> None:
    program = """
from fallow.interfaces.cli.main import COMMANDS, command_of
from fallow.interfaces.cli.options import common
for command in COMMANDS:
    command_of(command, common())
"""
    assert loaded_by(fallow, program).isdisjoint({"rich", "textual"})


def test_json_loads_no_tables(world: World, fallow: Fallow) -> None:
    loaded = loaded_by(fallow, "from fallow.interfaces.cli.main import main\nassert main(['status', '--json']) == 0")
    assert "rich" not in loaded
