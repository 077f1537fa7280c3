"""`fallow top` on terminals of all sizes, from the daemon or alone, when looks fail, and when it ends."""

import os
import pathlib
import re
import signal
import time
from typing import cast

import pytest

from fallow.core.errors import FallowError
from fallow.interfaces.top.look import Look, Source
from fallow.interfaces.top.messages import Said
from fallow.interfaces.top.widgets import GpuTable, JobTree
from tests.conftest import Fallow
from tests.engine.driven import DrivenClock
from tests.interfaces.cli.stopped import SLEEPER
from tests.interfaces.top.conftest import Start
from tests.interfaces.top.driven import Driver, drive
from tests.interfaces.top.terminal import ENTERED_ALTERNATE_SCREEN, Terminal
from tests.places import LIMIT_S, ME


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


@pytest.mark.more
def test_64_gpus_fit_one_screen_of_200_columns_and_50_lines(simulated: Fallow, start: Start) -> None:
    simulated.environ["FALLOW_SIMULATE"] = "64xH100"
    start("40")

    async def look(top: Driver) -> None:
        left, right = top.app.query_one("#left", GpuTable), top.app.query_one("#right", GpuTable)
        assert [*left.labels, *right.labels] == [str(label) for label in range(64)]
        shown = [line.split()[0] for line in top.text.splitlines()[3:35]]
        assert shown == [str(label) for label in range(32)]
        assert [int(line[100:].split()[0]) for line in top.text.splitlines()[3:35]] == list(range(32, 64))
        assert len(top.jobs) == 2
        await top.press(*["down"] * 8, "right", "w")
        await top.until(lambda: "why: GPU 40" in top.text)

    drive(simulated, look, size=(200, 50), every="1s")


@pytest.mark.more
def test_a_small_terminal_scrolls(simulated: Fallow) -> None:
    simulated.environ["FALLOW_SIMULATE"] = "64xH100"

    async def look(top: Driver) -> None:
        await top.press(*["down"] * 63)
        await top.until(lambda: top.app.gpu_label == "63")
        await top.sees("63 free")

    drive(simulated, look, every="1s")


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


class Broken:
    """A source with a mistake in it."""

    def look(self) -> Look:
        raise RuntimeError("[b]boom")


def test_an_internal_error_of_a_look_is_told_and_the_screen_stays(simulated: Fallow) -> None:
    async def look(top: Driver) -> None:
        top.app._source = cast("Source", Broken())
        await top.until(lambda: "looks: internal error (RuntimeError: [b]boom)" in top.outcome)
        assert "free" in top.row("0")
        await top.press("question_mark")
        await top.sees("keys and words")

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


@pytest.mark.parametrize(
    ("end", "code"),
    [(b"q", 0), (b"\x03", 0), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)],
    ids=["q", "ctrl-c", "sigterm", "sigint"],
)
def test_it_ends_and_leaves_the_terminal_as_it_was(simulated: Fallow, end: bytes | signal.Signals, code: int) -> None:
    terminal = Terminal(simulated)
    try:
        terminal.until(lambda shown: b"you can have" in shown and b"End" in shown)
        if isinstance(end, bytes):
            os.write(terminal.ours, end)
        else:
            terminal.process.send_signal(end)
        assert terminal.ended() == code
        assert terminal.is_restored
    finally:
        terminal.close()


@pytest.mark.more
def test_it_ends_with_its_terminal_also_if_nobody_sends_a_signal(simulated: Fallow) -> None:
    terminal = Terminal(simulated)
    try:
        terminal.until(lambda shown: b"you can have" in shown and b"End" in shown)
        terminal.hang_up()
        assert terminal.process.wait(LIMIT_S) == -signal.SIGHUP
    finally:
        terminal.close()


def test_what_others_write_to_the_terminal_is_soon_drawn_over(simulated: Fallow) -> None:
    terminal = Terminal(simulated)
    try:
        terminal.until(lambda shown: b"you can have" in shown and b"End" in shown)
        os.write(terminal.its, b"\r\nfallow: your job is idle\r\n")
        terminal.until(lambda shown: b"End" in shown.partition(b"your job is idle")[2])
        terminal.shown = b""
        os.write(terminal.ours, b"\x0c")
        terminal.until(lambda shown: b"End" in shown and b"you can have" in shown)
    finally:
        terminal.close()


def test_without_a_terminal_it_names_the_command_for_that(simulated: Fallow) -> None:
    done = simulated("top")
    assert done.returncode == 2
    assert "use fallow status --watch" in done.stderr
    terminal = Terminal(simulated, TERM="dumb")
    try:
        assert terminal.ended() == 2
        assert b"use fallow status --watch" in terminal.shown
    finally:
        terminal.close()


@pytest.mark.parametrize("words", [["9"], ["--activity", "sleepy"], ["--sort", "luck"], ["--every", "0"]])
def test_what_is_mistyped_is_said_before_the_screen_changes(simulated: Fallow, words: list[str]) -> None:
    terminal = Terminal(simulated, *words)
    try:
        assert terminal.ended() == 2
        assert ENTERED_ALTERNATE_SCREEN not in terminal.shown
    finally:
        terminal.close()


@pytest.mark.more
def test_a_line_of_the_tree_that_does_not_fit_says_so(simulated: Fallow, start: Start) -> None:
    job = start("1", f"{SLEEPER} # {'long ' * 20}")

    async def look(top: Driver) -> None:
        line = next(line for line in top.text.splitlines() if f"─ {job.pid} " in line)
        assert line.rstrip().endswith("…")
        assert len(line.rstrip()) == 80
        await top.pilot.resize_terminal(200, 24)
        await top.until(lambda: top.text.count("long ") > 10)

    drive(simulated, look)


@pytest.mark.more
def test_a_wide_screen_shows_what_the_job_runs(simulated: Fallow, start: Start) -> None:
    start("1", f"{SLEEPER} # the command")

    async def look(top: Driver) -> None:
        assert "-c " in top.row("1")
        assert "print('ready'" in top.row("1")

    drive(simulated, look, size=(200, 24))


@pytest.mark.more
def test_the_first_line_says_on_a_narrow_screen_too_for_how_long_gpus_were_not_used(
    simulated: Fallow, start: Start
) -> None:
    simulated.environ["FALLOW_SIMULATE"] = "64xH100"
    start("1")
    start("2")

    async def look(top: Driver) -> None:
        await top.until(lambda: "idle for up to " in top.text.splitlines()[0])

    drive(simulated, look)


@pytest.mark.more
def test_what_was_told_leaves_its_lines_to_the_jobs_after_some_time(simulated: Fallow) -> None:
    async def look(top: Driver) -> None:
        clock = DrivenClock()
        await top.press("s")
        await top.until(lambda: top.outcome == "nobody is on GPU 0")
        top.app._clock = clock
        top.app._told_s = clock.monotonic_s()
        await top.pilot.pause(1.2)
        assert top.outcome
        clock.now_s += 21
        await top.until(lambda: top.outcome == "")

    drive(simulated, look)


def test_what_comes_of_a_stop_after_the_screen_has_gone_is_no_error(simulated: Fallow) -> None:
    async def leave(top: Driver) -> None:
        await top.sees("4 available")

    app = drive(simulated, leave)
    app.on_said(Said("stopped"))
    app.show()
