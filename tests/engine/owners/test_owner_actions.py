"""What is done to a job through its owner, and when nothing is done to it.

An owner that did not stop its job would start it again: the job gets no signal instead, and people read why.
"""

import os
import pathlib
import subprocess
import threading
from collections.abc import Callable, Iterator

import pytest

from fallow.core.actions import Ask, Kill
from fallow.core.findings import Outcome
from fallow.core.job import GpuKey, Job
from fallow.core.owner import Owner, OwnerFacts, OwnerKind
from fallow.core.process import Process
from fallow.core.reasons import Reason
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.idle_rules.actions import ActionsOnProcesses, ProcessJobActions
from fallow.engine.idle_rules.gpu_jobs import JobFinder
from fallow.engine.machine.world import World
from fallow.engine.owners.actions import OwnerJobActions
from fallow.engine.owners.contact import Contact
from fallow.engine.owners.known import KnownOwners
from fallow.engine.owners.opt_outs import OptOuts, idle_for_s, opted_out, protected_unit
from tests.conftest import Fallow
from tests.places import LIMIT_S, ME
from tests.waiting import end_group, until

IDLE = Reason("told", sentence="it is idle")
NOBODY = frozenset[int]()
OwnedBy = Callable[[Contact], OwnerJobActions]


@pytest.fixture
def job(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    words = getattr(request, "param", ["sleep", "1000"])
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as process:
        yield process
        end_group(process)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def owned_by(
    simulated: Fallow, tmp_path: pathlib.Path, job: subprocess.Popen[bytes], told: list[str]
) -> Iterator[OwnedBy]:
    """Return what acts on the job through an owner."""
    world = World(simulated.environ)
    stat = world.proc.stat(job.pid)
    assert stat is not None
    members = {Process(job.pid, stat.birth): "sleep 1000"}
    pids = frozenset({job.pid})
    owner = Owner(OwnerKind.SERVICE, "train.service", "train.service")
    found = Job("key", ME, members, (GpuKey("host", "GPU-0"),), pids, owner=owner)
    run = Run(world, Journal(str(tmp_path / "journal"), world.clock.wall_s, print), Report(told.append))
    owners = KnownOwners(world, print)
    shared = ActionsOnProcesses(run, JobFinder(world, owners), owners, world.terminals())
    yield lambda contact: OwnerJobActions(world, ProcessJobActions(shared, found), contact, run.say, found)
    run.journal.close()
    world.close()


def contact(
    stop: Callable[[float], Outcome], kill: Callable[[], Outcome] | None = None, pids: frozenset[int] = NOBODY
) -> Contact:
    return Contact(OwnerFacts("train.service", pids=pids), "have systemd stop train.service", stop, kill)


@pytest.mark.parametrize("kill", [None, lambda: Outcome(True, "killed")])
def test_a_job_whose_owner_fails_to_stop_it_gets_no_signal_and_the_answer_is_told(
    owned_by: OwnedBy,
    job: subprocess.Popen[bytes],
    told: list[str],
    kill: Callable[[], Outcome] | None,
) -> None:
    actions = owned_by(contact(lambda _: Outcome(False, "systemctl failed: Access denied"), kill))
    assert actions.forbidden(actions.describe()) is None
    assert actions.ask(Ask(IDLE)).ok
    until(lambda: actions.is_answered)
    why = actions.forbidden(actions.describe())
    assert str(why) == "its owner did not stop it: systemctl failed: Access denied"
    assert any("its owner did not stop it: systemctl failed: Access denied" in line for line in told)
    assert not actions.kill(Kill(IDLE)).ok
    assert "did not stop it" in actions.survivors()
    assert job.poll() is None


def test_a_job_whose_owner_has_not_answered_yet_gets_no_signal(
    owned_by: OwnedBy, job: subprocess.Popen[bytes]
) -> None:
    answers = threading.Event()

    def stop(_: float) -> Outcome:
        answers.wait(LIMIT_S)
        return Outcome(True, "stopped")

    actions = owned_by(contact(stop))
    try:
        actions.ask(Ask(IDLE))
        assert str(actions.forbidden(actions.describe())) == "its owner cannot be asked: it has not answered yet"
        assert not actions.kill(Kill(IDLE)).ok
        assert "has not answered yet" in actions.survivors()
        assert job.poll() is None
    finally:
        answers.set()
    until(lambda: actions.is_answered)
    assert actions.kill(Kill(IDLE)).ok, "it has agreed, and what is left may be killed"
    assert job.wait(LIMIT_S) == -9


@pytest.mark.parametrize("text", ["1", "0"])
def test_a_process_that_its_owner_would_end_with_the_job_can_opt_out(owned_by: OwnedBy, text: str) -> None:
    words = ["sh", "-c", "echo up; read line"]  # once it has said so, its variables are there to be read
    with subprocess.Popen(
        words, env={**os.environ, "FALLOW_PROTECT": text}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        actions = owned_by(contact(lambda _: Outcome(True, "stopped"), pids=frozenset({other.pid})))
        why = actions.forbidden(actions.describe())
        other.kill()
    assert (None if why is None else (why.kind, why.facts["pid"])) == (
        ("opted_out", other.pid) if text == "1" else None
    )


@pytest.mark.parametrize("job", [["sh", "-c", "FALLOW_PROTECT=1 sh -c 'echo up; sleep 1000'; true"]], indirect=True)
def test_a_process_below_the_job_can_opt_out(owned_by: OwnedBy, job: subprocess.Popen[bytes]) -> None:
    assert job.stdout is not None
    job.stdout.readline()
    actions = owned_by(contact(lambda _: Outcome(True, "stopped")))
    why = actions.forbidden(actions.describe())
    assert why is not None
    assert why.kind == "opted_out"


def test_a_unit_that_the_config_names_is_protected() -> None:
    kept, other = (Owner(OwnerKind.SERVICE, name, name) for name in ("kept-1.service", "train.service"))
    assert protected_unit(kept, OptOuts(units=("kept-*",))) is not None
    assert protected_unit(other, OptOuts(units=("kept-*",))) is None


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ({}, None),
        ({"fallow.protect": "yes"}, "protected_label"),
        ({"fallow.protect": "no"}, None),
        ({"fallow.protect": "perhaps"}, "label_unclear"),
        ({"fallow.idle-for": "soon"}, "label_unclear"),
        ({"fallow.idle-for": "1h"}, None),
    ],
)
def test_a_label_protects_its_container_also_if_it_cannot_be_read(labels: dict[str, str], kind: str | None) -> None:
    container, facts = Owner(OwnerKind.CONTAINER, "c" * 64, "web"), OwnerFacts("web", labels=labels)
    why = opted_out(container, facts, 7, {})
    assert (None if why is None else why.kind) == kind
    assert (idle_for_s(facts) == 3600.0) is ("1h" in labels.values())
