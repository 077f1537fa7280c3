"""`fallow top` on terminals of all sizes, from the daemon or alone, when looks fail, and when it ends."""

import pathlib
import re
import signal
import time
from typing import cast

import pytest

from fallow.core.errors import FallowError
from fallow.interfaces.top.look import Look, Source
from fallow.interfaces.top.widgets import GpuTable, JobTree
from tests.conftest import Fallow
from tests.interfaces.top.conftest import Start
from tests.interfaces.top.driven import Driver, drive
from tests.places import LIMIT_S, ME
from tests.terminal import Terminal


def test_8_gpus_and_their_jobs_fit_80_columns_and_24_lines(simulated: Fallow, start: Start) -> None:
    simulated.environ["FALLOW_SIMULATE"] = "8xH100"
    for gpu in "0124":
        start(gpu)

    async def look(top: Driver) -> None:
        for label in map(str, range(8)):
            assert top.row(label)
        assert "python" in top.row("0")
        tree = top.app.query_one("#jobs", JobTree)
        assert tree.size.height >= 8
        assert all(line.split()[0] in top.text for line in top.jobs)
        await top.until(lambda: "q End" in top.text.splitlines()[-1])

    drive(simulated, look)


class Failing:
    """A source that can tell nothing any more."""

    def look(self) -> Look:
        raise FallowError("the [driver] does not answer")


@pytest.mark.more
def test_a_source_that_fails_is_told_and_what_was_shown_is_greyed_with_its_age(
    simulated: Fallow, start: Start
) -> None:
    start("1")

    async def look(top: Driver) -> None:
        cells = top.app.query_one("#left", GpuTable)
        assert "green" in str(cells.get_cell("0", "activity").style)
        top.app._source = cast("Source", Failing())
        await top.sees("ago: the [driver] does not answer")
        assert re.search(r"as it was \d+(\.\d)?s ago", top.text)
        assert "free" in top.row("0"), "the last look stays"
        assert {str(cells.get_cell("0", name).style) for name in ("activity", "index")} == {"bright_black"}
        tree = top.app.query_one("#jobs", JobTree)
        assert [str(branch.label.style) for branch in tree.root.children] == ["bright_black"]  # type: ignore[union-attr]

    drive(simulated, look)


@pytest.fixture
def config(tmp_path: pathlib.Path) -> str:
    file = tmp_path / "fallow.toml"
    file.write_text(
        "[terminals]\nusers = 'ignore'\n[[idle]]\nname = 'nights'\nidle_for = '1h'\nwarmup = '0s'\nact = true\n"
    )
    file.chmod(0o600)
    return str(file)


@pytest.mark.more
def test_from_the_daemon_it_tells_when_a_job_is_stopped_and_reads_no_gpu_itself(
    simulated: Fallow, start: Start, config: str
) -> None:
    start("1")
    running = simulated.start("up", "--config", config)
    by_s = time.monotonic() + LIMIT_S
    while simulated("status", "--json", "0").stdout.count('"for_s": null'):
        assert time.monotonic() < by_s, "the daemon never answered"

    async def look(top: Driver) -> None:
        await top.sees("from the daemon")
        await top.until(lambda: top.app._trend._of["1"][0].lasts_s > 0)  # it begins with what the daemon remembers
        await top.until(lambda: re.search(r"(warn )?\d+m$", top.row("1").rstrip()) is not None)
        assert not re.search(r"\d+m$", top.row("0").rstrip())
        await top.press("down", "enter")
        await top.sees(f"rule nights: {ME}'s job")
        await top.press("escape")
        await top.until(lambda: len(top.app.screen_stack) == 1)
        await top.press("p")
        await top.until(lambda: len(top.app.screen_stack) == 2)
        await top.press("enter")
        await top.until(lambda: top.row("1").rstrip().endswith("protected"))
        assert "gpu_reader" not in vars(top.app._source._world), "the daemon is the only reader"
        running.kill()
        running.wait(LIMIT_S)
        await top.sees("alone: the daemon is left out: ")

    drive(simulated, look)


LEFT_ALTERNATE_SCREEN = "\x1b[?1049l"
ENTERED_ALTERNATE_SCREEN = "\x1b[?1049h"


def on_terminal(fallow: Fallow, *words: str, kind: str = "xterm-256color") -> Terminal:
    return Terminal(["fallow", "top", *words], {**fallow.environ, "TERM": kind})


@pytest.mark.parametrize(
    ("end", "code"),
    [("q", 0), ("\x03", 0), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)],
    ids=["q", "ctrl-c", "sigterm", "sigint"],
)
def test_it_ends_and_leaves_the_terminal_as_it_was(simulated: Fallow, end: str | signal.Signals, code: int) -> None:
    with on_terminal(simulated) as terminal:
        terminal.until(lambda shown: "you can have" in shown and "End" in shown)
        if isinstance(end, str):
            terminal.type(end)
        else:
            terminal.process.send_signal(end)
        assert terminal.ended() == code
        assert terminal.is_as_before
        assert terminal.shown.rfind(LEFT_ALTERNATE_SCREEN) > terminal.shown.rfind(ENTERED_ALTERNATE_SCREEN)


def test_without_a_terminal_it_names_the_command_for_that(simulated: Fallow) -> None:
    done = simulated("top")
    assert done.returncode == 2
    assert "use fallow status --watch" in done.stderr
    with on_terminal(simulated, kind="dumb") as terminal:
        assert terminal.ended() == 2
        assert "use fallow status --watch" in terminal.shown


@pytest.mark.parametrize("words", [["9"], ["--activity", "sleepy"], ["--sort", "luck"], ["--every", "0"]])
def test_what_is_mistyped_is_said_before_the_screen_changes(simulated: Fallow, words: list[str]) -> None:
    with on_terminal(simulated, *words) as terminal:
        assert terminal.ended() == 2
        assert ENTERED_ALTERNATE_SCREEN not in terminal.shown
