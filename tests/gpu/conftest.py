"""Figures that the tests on a real card measure, printed as a table at the end."""

from collections.abc import Callable

import pytest

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
