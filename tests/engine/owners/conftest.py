"""A daemon with a rule that stops idle jobs, for what owners run on simulated GPUs."""

import pathlib
from collections.abc import Callable

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill

RULE = """
[machine]
every = "1s"
[[idle]]
name = "forgotten"
act = true
idle_for = "4s"
warmup = "0s"
warn_before = "2s"
grace = "5s"
idle_below = 20
"""
StartUp = Callable[..., Fill]


def rule(folder: pathlib.Path, more: str = "") -> str:
    """Write a config with the rule, and more of it or of the config; return its path."""
    file = folder / "fallow.toml"
    file.write_text(RULE + more)
    file.chmod(0o600)
    return str(file)


@pytest.fixture
def up(simulated: Fallow, tmp_path: pathlib.Path) -> StartUp:
    """Start `fallow up` with the rule."""
    return lambda more="": Fill(simulated.start("up", "--config", rule(tmp_path, more)))
