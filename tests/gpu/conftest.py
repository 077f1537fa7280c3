"""What the tests on a real card share; the figures that they measure are printed as a table at the end."""

import os
from collections.abc import Callable

import pytest

from tests.conftest import Fallow
from tests.gpu.visits import until, used_share

_figures: list[tuple[str, object]] = []


@pytest.fixture
def report() -> Callable[[str, object], None]:
    """Keep a figure for the table."""
    return lambda name, value: _figures.append((name, value))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _figures:
        terminalreporter.section("figures")
    for name, value in _figures:
        terminalreporter.write_line(f"{name:<50} {value}")


@pytest.fixture
def real(fallow: Fallow) -> Fallow:
    """fallow on the real card, once nobody is on it."""
    fallow.environ = {**os.environ, **fallow.environ}
    assert fallow("pick", "--wait", "60s").returncode == 0
    until(lambda: used_share() < 0.02)
    return fallow
