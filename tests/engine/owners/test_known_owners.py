"""Who is asked, how often and by how many threads, whatever users do."""

import gc
import os
import pathlib
import pwd
import signal
import threading
import weakref
from collections.abc import Iterator
from itertools import pairwise

import pytest

from fallow.core.findings import Outcome
from fallow.core.job import GpuKey, Job
from fallow.core.owner import Owner, OwnerFacts, OwnerKind
from fallow.core.process import Process
from fallow.core.unknown import Unknown
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.idle_rules.returned_jobs import ReturnedJobs
from fallow.engine.machine.world import World
from fallow.engine.owners.contact import Contact, Recent, contact
from fallow.engine.owners.known import KnownOwners
from fallow.readers.owners.traces import trace
from tests.conftest import LIMIT_S, Fallow
from tests.engine.driven import DrivenClock
from tests.real_owners import Jupyter, eventually

pytestmark = pytest.mark.more

USERS = [entry.pw_uid for entry in pwd.getpwall() if entry.pw_uid][:4]
NOBODYS = range(3_000_000, 3_000_050)


def answer(name: str) -> Contact:
    return Contact(OwnerFacts(name), "stop it", lambda _: Outcome(True, ""))


def ourselves(world: World) -> Process:
    stat = world.proc.stat(os.getpid())
    assert stat is not None
    return Process(stat.pid, stat.birth)


def of_user(uid: int) -> Owner:
    return Owner(OwnerKind.SERVICE, f"app-{uid}.service", manager=uid)


class Gates:
    """Owners that answer only once their user's gate is open."""

    def __init__(self) -> None:
        self.open: dict[int, threading.Event] = {}
        self.asked: list[int] = []

    def __call__(self, world: World, owner: Owner, pid: int) -> Contact:
        self.asked.append(owner.manager)
        self.open.setdefault(owner.manager, threading.Event()).wait(LIMIT_S)
        return answer(owner.id)


@pytest.fixture
def world(fallow: Fallow) -> World:
    return World(fallow.environ, simulate="1xH100")


def children(world: World, count: int) -> Iterator[Process]:
    """Different processes, as far as anybody looks."""
    me = ourselves(world)
    return (Process(me.pid, me.birth + number) for number in range(count))


def test_a_question_waits_while_all_threads_are_at_work_and_is_asked_then(world: World) -> None:
    gates, (first, second, third) = Gates(), list(children(world, 3))
    owners = KnownOwners(world, lambda _: None, gates, most_threads=2)
    for process, uid in ((first, USERS[0]), (second, USERS[1])):
        owners.contact(process, of_user(uid))
    eventually(lambda: len(gates.asked) == 2, "two questions")
    waits = owners.contact(third, of_user(USERS[2]))
    assert isinstance(waits, Unknown)
    assert "asked later" in waits.why
    assert not waits.asked
    for uid in USERS[:3]:
        gates.open.setdefault(uid, threading.Event()).set()

    def is_asked() -> bool:
        owners.contact(third, of_user(USERS[2]))
        return USERS[2] in gates.asked

    eventually(is_asked, "the question that had to wait")


def test_more_users_than_threads_are_all_asked_one_after_the_other(world: World) -> None:
    gates = Gates()
    owners = KnownOwners(world, lambda _: None, gates, most_threads=1)
    for process, uid in zip(children(world, len(USERS)), USERS, strict=True):
        gates.open.setdefault(uid, threading.Event()).set()

        def is_asked(process: Process = process, uid: int = uid) -> bool:
            owners.contact(process, of_user(uid))
            return uid in gates.asked

        eventually(is_asked, f"the question about user {uid}")


def test_numbers_of_users_without_an_account_share_one_thread(world: World) -> None:
    gates, before = Gates(), threading.active_count()
    owners = KnownOwners(world, lambda _: None, gates)
    for process, uid in zip(children(world, len(NOBODYS)), NOBODYS, strict=True):
        owners.contact(process, of_user(uid))
    eventually(lambda: gates.asked, "the first question")
    assert threading.active_count() - before <= 1
    for uid in NOBODYS:
        gates.open.setdefault(uid, threading.Event()).set()
    owners.finish(LIMIT_S)
    assert sorted(gates.asked) == list(NOBODYS)


def test_answers_that_nobody_needs_any_more_are_dropped_though_nothing_new_is_traced(fallow: Fallow) -> None:
    clock = DrivenClock()
    world = World(fallow.environ, simulate="1xH100", clock=clock)
    kept: list[weakref.ref[Contact]] = []

    def ask(_: World, owner: Owner, pid: int) -> Contact:
        found = answer(owner.id)
        kept.append(weakref.ref(found))
        return found

    owners, me = KnownOwners(world, lambda _: None, ask), ourselves(world)
    owners.contact(me, of_user(USERS[0]))
    owners.finish(LIMIT_S)
    assert isinstance(owners.contact(me, of_user(USERS[0])), Contact)
    clock.sleep(61.0)
    owners.contact(Process(me.pid, me.birth + 1), of_user(USERS[0]))
    owners.finish(LIMIT_S)
    gc.collect()
    assert kept[0]() is None


def test_an_owner_that_takes_long_to_answer_is_asked_less_often(fallow: Fallow) -> None:
    clock = DrivenClock()
    world = World(fallow.environ, simulate="1xH100", clock=clock)
    asked: list[float] = []

    def ask(_: World, owner: Owner, pid: int) -> Contact:
        asked.append(clock.monotonic_s())
        clock.sleep(3.0)
        return answer(owner.id)

    owners, me = KnownOwners(world, lambda _: None, ask), ourselves(world)
    for _ in range(23):
        owners.contact(me, of_user(USERS[0]))
        owners.finish(LIMIT_S)
        clock.sleep(1.0)
    assert [later - before for before, later in pairwise(asked)] == [20.0]


@pytest.mark.parametrize(("takes_s", "kept_for_s"), [(0.0, 2.0), (0.4, 4.0), (3.0, 5.0)])
def test_an_answer_that_took_long_is_kept_for_longer(takes_s: float, kept_for_s: float) -> None:
    clock, asked = DrivenClock(), []

    def ask() -> dict[str, OwnerFacts]:
        asked.append(clock.monotonic_s())
        clock.sleep(takes_s)
        return {}

    recent: Recent = Recent(clock)
    recent("server", ask)
    clock.sleep(kept_for_s - 0.1)
    recent("server", ask)
    recent("another server", ask)
    assert len(asked) == 2
    clock.sleep(0.2)
    recent("server", ask)
    assert len(asked) == 3


@pytest.mark.engine
def test_a_server_is_asked_once_for_all_its_kernels(fallow: Fallow, tmp_path: pathlib.Path) -> None:
    clock = DrivenClock()
    world, recent = World(fallow.environ, clock=clock), Recent(clock)
    server = Jupyter(tmp_path / "jupyter", fallow.environ)

    def name_of(pid: int) -> str:
        owner = trace(world.proc, pid)
        assert isinstance(owner, Owner)
        found = contact(world, owner, pid, recent)
        assert isinstance(found, Contact), found
        return found.facts.name

    try:
        pids = [server.open(f"{name}.ipynb")[1] for name in ("one", "two", "three")]
        assert name_of(pids[0]) == "one.ipynb"
        server.process.send_signal(signal.SIGSTOP)  # who asks it now gets no answer
        assert [name_of(pid) for pid in pids] == ["one.ipynb", "two.ipynb", "three.ipynb"]
    finally:
        server.process.send_signal(signal.SIGCONT)
        server.close()


@pytest.mark.engine
def test_a_kernel_without_a_notebook_is_known_too(fallow: Fallow, tmp_path: pathlib.Path) -> None:
    world = World(fallow.environ)
    server = Jupyter(tmp_path / "jupyter", fallow.environ)
    try:
        kernel = server.ask("POST", "api/kernels", {"name": "gpu"})["id"]
        pid = int(eventually(lambda: server.pid_of(kernel), "the kernel"))
        owner = trace(world.proc, pid)
        assert isinstance(owner, Owner)
        found = contact(world, owner, pid)
        assert isinstance(found, Contact), found
        assert found.facts.name == f"kernel {kernel[:8]}"
    finally:
        server.close()


CGROUP = "/system.slice/docker-" + "c" * 64


def container_job(cgroup: str, manager: int) -> Job:
    owner = Owner(OwnerKind.CONTAINER, "c" * 64, "web", manager, cgroup)
    return Job(owner.key, "ada", {Process(7, 1): "serve"}, (GpuKey("host", "GPU-0"),), frozenset((7,)), owner=owner)


@pytest.mark.parametrize("others", [("/user.slice/mine/" + "c" * 64, 0), (CGROUP, 1000)])
def test_what_only_bears_the_name_of_a_stopped_job_did_not_come_back(
    fallow: Fallow, tmp_path: pathlib.Path, others: tuple[str, int]
) -> None:
    world = World(fallow.environ, simulate="1xH100")
    journal = Journal(str(tmp_path), world.clock.wall_s, lambda _: None)
    returned = ReturnedJobs(Run(world, journal, Report(lambda _: None)))
    returned.stopped(container_job(CGROUP, 0))
    assert not returned.has_returned(container_job(*others))
    assert returned.has_returned(container_job(CGROUP, 0))
    journal.close()
