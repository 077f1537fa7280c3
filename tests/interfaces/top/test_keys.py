"""`fallow top` as a person uses it: find a GPU, learn why, stop a job, protect one, filter, sort, click."""

import pytest
from textual.widgets import Input

from fallow.interfaces.top.dialogs import ProtectScreen, StopScreen, TextScreen
from tests.conftest import Fallow
from tests.interfaces.cli.stopped import ALONE, DEAF, SLEEPER
from tests.interfaces.top.conftest import Start
from tests.interfaces.top.driven import Driver, drive
from tests.places import ME

NOT_OURS = ALONE + SLEEPER
"""A job that is not below this process, which is the fallow that stops it: fallow stops nothing that it started."""


@pytest.mark.more
def test_a_job_is_stopped_alone_and_only_after_a_person_has_seen_what_would_be_done_and_agreed(
    simulated: Fallow, start: Start
) -> None:
    job, other = start("1", NOT_OURS), start("2", NOT_OURS)

    async def stop(top: Driver) -> None:
        for answer in ("n", "escape", "enter"):
            await top.press("down", "s")
            await top.until(lambda: isinstance(top.app.screen, StopScreen))
            await top.press(answer)
            await top.until(lambda: not isinstance(top.app.screen, StopScreen))
            await top.until(lambda: top.outcome == "nothing was stopped")
            await top.press("up")
        await top.press("tab", "down", "s")
        await top.until(lambda: isinstance(top.app.screen, StopScreen))
        await top.sees("would send SIGTERM to every")
        assert job.lives
        await top.press("y")
        await top.until(lambda: f"stopped {ME}'s job {job.pid} (python" in top.outcome)
        assert "GPU 1: " in top.outcome, "what became of its memory"
        await top.until(lambda: "free" in top.row("1"))

    drive(simulated, stop)
    assert not job.lives
    assert other.lives
    assert f"stopped by hand by {ME}" in simulated("why", "1").stdout


@pytest.mark.more
def test_a_job_that_is_protected_is_left_alone_and_released_where_it_is_protected(
    simulated: Fallow, start: Start
) -> None:
    job = start("1", NOT_OURS)
    assert simulated("protect", f"user:{ME}", "--for", "3h").returncode == 0

    async def protect(top: Driver) -> None:
        await top.press("down", "p")
        await top.until(lambda: isinstance(top.app.screen, ProtectScreen))
        top.app.screen.query_one("#for", Input).value = "30m"
        await top.press("tab", *"debugging", "enter")
        await top.until(lambda: f"{ME} protects GPU 1 " in top.outcome)
        await top.until(lambda: top.row("1").rstrip().endswith("protected"))
        assert "protected" not in top.row("0")
        await top.press("s")
        await top.until(lambda: "left alone: " in top.outcome)
        await top.press("p")
        await top.sees("it is protected already: ")
        await top.sees(f"{ME} protects GPU 1 ")
        await top.sees("debugging")
        await top.sees(f"{ME} protects user:{ME} ")
        await top.press("ctrl+r")
        await top.until(lambda: top.outcome.endswith(" is released"))
        await top.press("p")
        await top.until(lambda: "it is protected already" in top.text and "debugging" not in top.text)
        assert "Ctrl-R" not in top.text, "a protection of more than this is not released from here"
        await top.press("ctrl+r", "escape")
        await top.until(lambda: not isinstance(top.app.screen, ProtectScreen))

    drive(simulated, protect)
    assert job.lives
    left = simulated("protect", "--list").stdout
    assert f"protects user:{ME}" in left
    assert "debugging" not in left


@pytest.mark.more
def test_a_person_learns_why_their_job_was_stopped(simulated: Fallow, start: Start) -> None:
    start("1")
    assert simulated("stop", "1", "--yes").returncode == 0

    async def ask(top: Driver) -> None:
        await top.press("down", "w")
        await top.until(lambda: isinstance(top.app.screen, TextScreen))
        await top.sees(f"stopped by hand by {ME}")
        await top.press("escape")
        await top.until(lambda: not isinstance(top.app.screen, TextScreen))
        await top.press("W")
        await top.until(lambda: isinstance(top.app.screen, TextScreen))
        await top.sees("nobody of it is left")

    drive(simulated, ask)


@pytest.mark.more
def test_the_jobs_are_a_tree_and_what_others_wrote_in_it_is_neither_markup_nor_an_escape_code(
    simulated: Fallow, start: Start
) -> None:
    job = start("1,2", f"{SLEEPER} # [bold red]evil[/] \x1b[31m \u202e")

    async def look(top: Driver) -> None:
        branch, process = top.jobs
        assert branch.startswith(f"{ME}  ")
        assert "by python" in branch or "by pytest" in branch
        assert "GPU 1-2" in branch
        assert process.startswith(f"{job.pid} ")
        assert "[bold red]evil[/] ?[31m" in process
        assert "\u202e" not in process
        await top.press("tab", "enter")
        await top.sees(f"pid {job.pid} was started by ")
        assert "\x1b" not in top.text

    drive(simulated, look, size=(200, 50))


@pytest.mark.more
def test_a_filter_shows_only_some_activities_or_users(simulated: Fallow, start: Start) -> None:
    start("1")

    async def look(top: Driver) -> None:
        await top.press("slash")
        await top.press(*"idle", "enter")
        await top.sees("only idle")
        await top.until(lambda: "\n0 " not in top.text)
        assert top.row("1")
        await top.press("slash")
        await top.sees("writing replaces what is marked")
        await top.press(*"nobody idle", "enter")
        await top.sees("only nobody idle")
        await top.until(lambda: "\n1 " not in top.text)
        assert top.jobs == []
        await top.press("slash", "delete", "enter")
        await top.until(lambda: "only" not in top.text)
        assert top.row("0")

    drive(simulated, look)


def test_the_help_names_every_key(simulated: Fallow) -> None:
    async def look(top: Driver) -> None:
        await top.press("question_mark")
        await top.sees("keys and words")
        shown = {line.strip(" │").split(" ")[0] for line in top.text.splitlines()}
        assert {"p", "s", "w", "Enter", "/", "q"} <= shown

    drive(simulated, look, size=(100, 50))


@pytest.mark.more
def test_a_stop_that_is_under_way_is_not_left_by_q_and_ctrl_c_says_how_far_it_came(
    simulated: Fallow, start: Start
) -> None:
    job = start("1", ALONE + DEAF)
    assert job.process.stdout is not None
    assert job.process.stdout.readline() == "ready\n"
    told: list[str] = []

    class Voice:
        def note(self, sentence: str) -> None:
            told.append(sentence)

    async def stop(top: Driver) -> None:
        await top.press("down", "s")
        await top.until(lambda: isinstance(top.app.screen, StopScreen))
        await top.press("y")
        await top.until(lambda: "stopping " in top.outcome)
        await top.press("q")
        await top.until(lambda: "a stop is under way" in top.outcome)
        await top.press("ctrl+c")
        top.commands.tell_interrupted(Voice())  # type: ignore[arg-type]

    assert drive(simulated, stop).return_value == 0
    assert told == [f"interrupted: {told[0].partition(': ')[2]}"]
    assert "was asked to end, and may still be there" in told[0]
    assert job.lives
