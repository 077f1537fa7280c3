"""What comes with a warning: words on terminals, a signal, and no promise that cannot be kept."""

import os
import signal
from collections.abc import Iterator

import pytest

from tests.engine.idle_rules.test_rules import ASK_S, JOB, OTHER, RULE, WARN_S
from tests.harness import Machine
from tests.places import ME
from tests.waiting import until

WARNS = f"{RULE}warn_signal = 'USR1'\n"


def test_a_job_that_catches_the_signal_of_the_warning_gets_it_and_what_follows_follows_all_the_same(
    machine: Machine,
) -> None:
    """Only processes on GPUs get it: a worker that a training forked would save over what the training saves."""
    machine.gpu(0).held_by(JOB, ignores=[signal.SIGUSR1])
    machine.proc.start(OTHER, parent=JOB, session=JOB, ignores=[signal.SIGUSR1])
    machine.configure(WARNS)
    machine.pass_(seconds=ASK_S)
    assert machine.done == [f"SIGUSR1 to {JOB}", f"SIGTERM to {OTHER}", f"SIGTERM to {JOB}"]
    assert machine.said("rule forgotten: SIGUSR1 to 1 process")


def test_a_job_that_does_not_catch_the_signal_of_the_warning_does_not_get_it(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB)
    machine.configure(WARNS)
    machine.pass_(seconds=WARN_S)
    assert machine.done == []
    (outcome,) = [event.because for event in machine.events() if event.kind == "outcome"]
    assert outcome.endswith(f"; SIGUSR1 to no process; not to pid {JOB}, which does not catch it")


@pytest.mark.parametrize("by", ["a dry run", "a protection"])
def test_a_dry_run_and_a_protection_send_no_signal_with_the_warning(machine: Machine, by: str) -> None:
    machine.gpu(0).held_by(JOB, ignores=[signal.SIGUSR1])
    machine.configure(WARNS, dry_run=by == "a dry run")
    if by == "a protection":
        machine.protect(f"user:{ME}")
    machine.pass_(seconds=60)
    assert machine.done == []


@pytest.fixture
def terminals() -> Iterator[list[tuple[int, int]]]:
    """Two pseudo-terminals: what is written to each can be read, and its own end."""
    made = [os.openpty() for _ in range(2)]
    for reader, _ in made:
        os.set_blocking(reader, False)
    yield made
    for pair in made:
        for fd in pair:
            os.close(fd)


def logged_in(machine: Machine, *people: tuple[str, int]) -> None:
    """Let these users be at the terminals of these descriptors, by logind."""
    for number, (user, fd) in enumerate(people):
        facts = f"USER={user}\nTTY={os.ttyname(fd).removeprefix('/dev/')}\nCLASS=user\nSTATE=active\n"
        (machine.folder / "sessions" / str(number)).write_text(facts)


def written(reader: int) -> str:
    try:
        return os.read(reader, 4096).decode()
    except BlockingIOError:
        return ""


def test_its_owner_is_told_on_their_terminal_and_nobody_else_on_theirs(
    machine: Machine, terminals: list[tuple[int, int]]
) -> None:
    (mine, my_terminal), (others, other_terminal) = terminals
    logged_in(machine, (ME, my_terminal), ("somebody", other_terminal))
    machine.gpu(0).held_by(JOB)
    machine.configure(RULE)
    machine.pass_(seconds=WARN_S)
    said = written(mine)
    assert f"fallow: your job {JOB} " in said
    assert f"To keep it: fallow protect pid:{JOB} --for 2h" in said
    assert written(others) == ""
    assert f"told on {os.ttyname(my_terminal)}" in [event.because for event in machine.events()]


@pytest.mark.as_root
def test_a_terminal_that_is_another_users_by_now_is_not_written_to(
    machine: Machine, terminals: list[tuple[int, int]]
) -> None:
    """A record of a login that was left over had a warning, with the name of the job, written to a neighbour."""
    (mine, my_terminal), (others, other_terminal) = terminals
    os.fchown(other_terminal, 61001, -1)
    logged_in(machine, (ME, my_terminal), (ME, other_terminal))
    machine.gpu(0).held_by(JOB)
    machine.configure(RULE)
    machine.pass_(seconds=WARN_S)
    assert f"fallow: your job {JOB} " in written(mine)
    assert written(others) == ""


@pytest.mark.parametrize("action", ["['park', 'stop']", "['park']"])
def test_nobody_is_promised_that_a_job_is_parked_which_cannot_be_and_no_failure_counts_as_done(
    machine: Machine, terminals: list[tuple[int, int]], action: str
) -> None:
    (mine, my_terminal), _ = terminals
    logged_in(machine, (ME, my_terminal))
    machine.gpu(0).held_by(JOB)
    machine.configure(f"{RULE}action = {action}\n")
    machine.pass_(seconds=WARN_S)
    will = "will be stopped in 10s" if "stop" in action else "will be parked, if that is possible, in 10s"
    for said in (written(mine), "\n".join(machine.told)):
        assert will in said
        assert ("parked" in said.lower()) is ("stop" not in action)

    def counted() -> dict[tuple[str, str], int]:
        machine.pass_(seconds=1)
        return dict(machine.board.counts.actions)

    found = until(counted, lambda seen: ("park", "failed") in seen)
    assert ("park", "done") not in found
    if "stop" in action:
        until(counted, lambda seen: ("ask", "done") in seen)
    assert machine.done == ([f"SIGTERM to {JOB}"] if "stop" in action else [])
