"""Keys that come all at once, as over a slow ssh, mean what they mean one by one."""

import os

import pytest

from fallow.interfaces.top.dialogs import ProtectScreen
from tests.conftest import Fallow
from tests.interfaces.top.conftest import Start
from tests.interfaces.top.driven import Driver, drive
from tests.interfaces.top.terminal import Terminal

BACK = "backspace"


def at_once(top: Driver, *keys: str) -> None:
    for key in keys:
        top.app.simulate_key(key)


@pytest.mark.parametrize(
    ("keys", "left"),
    [
        (("p", "3", "h", BACK, BACK, "5", "m", "enter"), "for another 5m"),
        (("p", "tab", "x", BACK, *"why", "shift+tab", BACK, BACK, *"45m", "enter"), "why; for another 45m"),
        (("p", *"soon", "enter", *"7m", "enter"), "for another 7m"),
    ],
    ids=["corrected", "both fields", "refused first"],
)
@pytest.mark.more
def test_what_is_written_at_once_is_protected_for_as_long_as_it_says(
    simulated: Fallow, start: Start, keys: tuple[str, ...], left: str
) -> None:
    start("0")

    async def protect(top: Driver) -> None:
        at_once(top, *keys)
        await top.until(lambda: "protects GPU 0 " in top.outcome)
        assert top.outcome.endswith(left)

    drive(simulated, protect)


@pytest.mark.more
def test_a_filter_that_is_corrected_at_once_is_as_it_was_written(simulated: Fallow, start: Start) -> None:
    start("1")

    async def look(top: Driver) -> None:
        at_once(top, "slash", *"fre", BACK, BACK, BACK, *"idle", "home", "b", BACK, "enter", "j")
        await top.sees("only idle")
        await top.sees("jobs on GPU 1")

    drive(simulated, look)


@pytest.mark.more
def test_a_line_that_is_pasted_is_there_before_the_key_after_it(simulated: Fallow, start: Start) -> None:
    from textual.events import Paste

    start("0")

    async def protect(top: Driver) -> None:
        await top.press("p")
        await top.until(lambda: isinstance(top.app.screen, ProtectScreen))
        top.app.post_message(Paste("50m\nand more"))
        at_once(top, "enter")
        await top.until(lambda: "for another 50m" in top.outcome)

    drive(simulated, protect)


def test_bytes_that_reach_a_terminal_at_once_set_the_duration_that_they_write(simulated: Fallow) -> None:
    terminal = Terminal(simulated)
    try:
        terminal.until(lambda shown: b"you can have" in shown and b"End" in shown)
        os.write(terminal.ours, b"p3h\x7f\x7f5m\tdebuh\x7fg\r")
        terminal.until(lambda shown: b"debug; for another " in shown)
        assert "debug; for another 5m\n" in simulated("protect", "--list").stdout.replace("4m59s", "5m")
    finally:
        terminal.close()
