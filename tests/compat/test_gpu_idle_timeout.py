"""gpu_idle_timeout's help and example, with one word changed: the same options, lines and order of events."""

import os
import pathlib
import re
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.compat.documents import blocks, commands, ours
from tests.conftest import Fallow
from tests.places import LIMIT_S
from tests.standin import Process, World

HELP, EXAMPLE = blocks("gpu_idle_timeout", "")
QUICK = ("compat", "gpu_idle_timeout", "-s", "0.2", "-n", "3", "-d", "2")


def log_lines(text: str) -> list[tuple[str, str]]:
    """Level and message of each line; each must have the form of the old tool's."""
    found = []
    for line in text.splitlines():
        match = re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: ([A-Z]+): gpu_idle_timeout: (.*)", line)
        assert match, line
        found.append((match[1], match[2]))
    return found


def test_the_help_has_every_option_and_default_of_the_document(fallow: Fallow) -> None:
    (line,) = commands(HELP)
    shown = subprocess.run(
        ours(line).split(), env={**fallow.environ, "COLUMNS": "300"}, capture_output=True, text=True, check=True
    ).stdout
    theirs = HELP.split("arguments:\n")[-1]
    for option in re.findall(r"^  (-.*?)(?:  |$)", theirs, re.MULTILINE):
        assert option in shown
    ours_told, theirs_told = (re.findall(r"\(default: (.*?)\)", text) for text in (shown, theirs))
    assert [default for default in ours_told if default in ("1", "5", "60", "12")] == theirs_told[:4]
    assert "exec_command_and_args" in shown


def at_our_pace(message: str, world: World) -> str:
    """A message of the document's example as it reads on our two cards, at a twentieth of its pace."""
    theirs = sorted(set(re.findall(r"GPU-[0-9a-f-]{36}", EXAMPLE)))
    for card, uuid in zip(world, theirs, strict=True):
        message = message.replace(uuid, card.uuid)
    message = message.replace("sample_freq=10", "sample_freq=0.5").replace("window_size=50", "window_size=2.5")
    return re.sub(r"\b(\d+) seconds", lambda found: f"{int(found[1]) / 20:g} seconds", message)


@pytest.mark.more
def test_the_example_of_the_document_logs_its_lines_in_its_order_and_ends_the_command(
    make_world: Callable[..., World], fallow: Fallow
) -> None:
    world = make_world(cards=2)
    (line,) = commands(EXAMPLE)
    watched = fallow.start(*ours(line).replace("-s 10", "-s 0.5").split()[1:])
    assert watched.stderr is not None
    logged = log_lines(watched.stderr.read())  # nobody writes to `grep foo`, so it hangs, as the document says
    assert watched.wait(LIMIT_S) == 124
    theirs = [(level, at_our_pace(message, world)) for level, message in log_lines(EXAMPLE.partition("\n")[2])]
    assert theirs.pop() == ("ERROR", "process still alive, killing."), "grep ends when it is asked to"
    rest = iter(logged)
    assert all(entry in rest for entry in theirs), "theirs are among ours, in their order"
    for level, message in logged:
        of_the_second = message.startswith(world[1].uuid)  # theirs did not look at it any more
        assert (level, message) in theirs or of_the_second or (level == "WARNING" and "unless it works" in message)


@pytest.mark.more
def test_a_process_that_does_not_listen_is_killed_with_all_below_it(
    make_world: Callable[..., World], fallow: Fallow
) -> None:
    make_world(cards=1)
    deaf = "trap '' TERM; sleep 600 & echo $!; while :; do sleep 600; done"
    watched = fallow.start(*QUICK, "sh", "-c", deaf)
    assert watched.stdout is not None
    below = int(watched.stdout.readline())
    _, err = watched.communicate(timeout=LIMIT_S)
    assert watched.returncode == 124
    errors = [message for level, message in log_lines(err) if level == "ERROR"]
    assert errors[0].endswith("usage below threshhold 1% for last 0.6 seconds. Killing process.")
    assert errors[1:] == ["process still alive, killing."]
    assert not pathlib.Path(f"/proc/{below}").exists()


@pytest.mark.more
def test_a_process_is_asked_with_the_signal_that_was_named(make_world: Callable[..., World], fallow: Fallow) -> None:
    make_world(cards=1)
    program = "trap 'echo asked; exit 0' USR1; while :; do sleep 0.05; done"
    done = fallow(*QUICK, "--signal-name", "SIGUSR1", "--signal-children", "sh", "-c", program)
    assert (done.returncode, done.stdout) == (124, "asked\n")


@pytest.mark.more
def test_work_on_any_card_of_the_machine_keeps_it_alive(world: World, fallow: Fallow) -> None:
    world[7].utilization = 20
    world[7].compute, world[7].memory_used = [Process(os.getpid(), 2**30)], 2**30
    done = fallow(*QUICK, "-t", "10", "sh", "-c", "sleep 2; exit 7")
    assert done.returncode == 7, "and its exit code is its own"
    assert [level for level, _ in log_lines(done.stderr) if level == "ERROR"] == []


def test_the_death_of_the_command_is_its_own(world: World, fallow: Fallow) -> None:
    assert fallow(*QUICK, "sh", "-c", "kill -SEGV $$").returncode == -signal.SIGSEGV


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("-t", "0", "true"), 2, "THRESHHOLD_PERCENTAGE must be greater than 0"),
        (("-s", "0", "true"), 2, "SAMPLE_FREQ must be greater than 0"),
        (("-n", "0", "true"), 2, "NUM_SAMPLES must be greater than 0"),
        ((), 2, "no command to run"),
        (("--signal-name", "SIGFOO", "true"), 2, "is not a signal"),
        (("--", "no-such-thing"), 127, "no command"),
    ],
)
def test_wrong_words_are_answered_before_anything_runs(
    world: World, fallow: Fallow, words: tuple[str, ...], code: int, says: str
) -> None:
    done = fallow("compat", "gpu_idle_timeout", *words)
    assert done.returncode == code
    assert says in done.stderr
