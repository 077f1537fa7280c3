"""What the tests on a real card share; what they measure is printed at once, and as a table at the end."""

import os
import pathlib
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Fallow
from tests.gpu.visits import until, used_share

Report = Callable[[str, object], None]
_figures: list[tuple[str, object]] = []


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Say how long each test took."""
    if report.when == "call" and report.passed:
        return "passed", ".", f"PASSED in {report.duration:.1f} s"
    return None


@pytest.fixture(scope="session")
def report(request: pytest.FixtureRequest) -> Report:
    """Print a figure, and keep it for the table."""
    terminal = request.config.pluginmanager.getplugin("terminalreporter")

    def keep(name: str, value: object) -> None:
        _figures.append((name, value))
        terminal.write_line(f"\n    {name}: {value}")

    return keep


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _figures:
        terminalreporter.section("figures")
    for name, value in _figures:
        terminalreporter.write_line(f"| {name} | {value} |")


def on_the_card(home: pathlib.Path) -> Fallow:
    """fallow on the real card."""
    made = Fallow(home)
    made.environ = {**os.environ, **made.environ}
    return made


@pytest.fixture
def real(tmp_path: pathlib.Path) -> Iterator[Fallow]:
    """fallow on the real card, for one test, once the card is free."""
    made = on_the_card(tmp_path)
    assert made("pick", "--wait", "30s").returncode == 0
    yield made
    made.end_all()


@pytest.fixture(autouse=True)
def _nobody_is_on_the_card(request: pytest.FixtureRequest) -> None:
    """Begin each test once the driver has torn down whoever was there before, unless a filler is to be there."""
    if "fill" not in request.fixturenames:
        until(lambda: used_share() < 0.02)
