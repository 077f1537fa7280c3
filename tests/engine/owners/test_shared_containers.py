"""A container in which several users have processes on GPUs is one job, and ends as one or not at all."""

import os
import pathlib
from collections.abc import Callable
from contextlib import suppress

import pytest

from fallow.core.findings import Outcome
from fallow.core.job import GpuKey, Job
from fallow.core.owner import Owner, OwnerFacts, OwnerKind
from fallow.core.process import Process
from fallow.core.protections import OneUser
from fallow.engine.allocate.subjects import matches, who_is
from fallow.engine.config.rules import Idle
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.idle_rules.actions import ActionsOnProcesses, ProcessJobActions
from fallow.engine.idle_rules.enforcer import why_not_covered
from fallow.engine.idle_rules.gpu_jobs import JobFinder
from fallow.engine.machine.world import World
from fallow.engine.owners.actions import OwnerJobActions
from fallow.engine.owners.contact import Contact
from fallow.engine.owners.known import KnownOwners
from tests.conftest import Fallow
from tests.engine.owners.conftest import StartUp
from tests.engine.owners.test_rules_through_owners import on_gpu
from tests.real_owners import Podman, eventually

pytestmark = pytest.mark.more

WORKS = ("sh", "-c", "while true; do :; done")
WAITS = ("sleep", "1000")


def joined_by(podman: Podman, container: str, *options: str, command: tuple[str, ...] = WAITS) -> int:
    """Start a process of another user in a container; its pid."""
    podman("exec", "-d", "-u", "12345", *options, container, *command)

    def pid() -> int | None:
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it may end while it is looked at
                said = (folder / "status").read_text()
                if "\nUid:\t12345\t" in said and container in (folder / "cgroup").read_text():
                    return int(folder.name)
        return None

    return int(eventually(pid, "the other user's process"))


@pytest.mark.parametrize("why", ["it works", "its variable", "its GPU is protected", "its user is protected"])
@pytest.mark.engine
def test_a_container_is_left_alone_for_the_process_of_any_user_in_it(
    simulated: Fallow, up: StartUp, podman: Podman, why: str
) -> None:
    shared, first = podman.run("shared", *on_gpu(simulated, 0))
    more = ("-e", "FALLOW_PROTECT=1") if why == "its variable" else ()
    command = WORKS if why == "it works" else WAITS
    other = joined_by(podman, shared, *on_gpu(simulated, 1), *more, command=command)
    podman.run("other", *on_gpu(simulated, 2))
    if why == "its GPU is protected":
        assert simulated("protect", "1", "--for", "1h").returncode == 0
    running = up("[protect]\nusers = ['12345']\n" if why == "its user is protected" else "")
    running.until("container other was stopped")
    assert podman.pid_of(shared) == first
    assert pathlib.Path(f"/proc/{other}").exists()


@pytest.mark.engine
def test_a_container_in_which_all_users_are_idle_is_stopped_as_one_job(
    simulated: Fallow, up: StartUp, podman: Podman
) -> None:
    shared, first = podman.run("shared", *on_gpu(simulated, 0))
    other = joined_by(podman, shared, *on_gpu(simulated, 1))
    running = up("")
    running.until(f"root's job {first} (sleep) and 1 more, container shared was stopped")
    assert podman.pid_of(shared) == 0
    eventually(lambda: not pathlib.Path(f"/proc/{other}").exists(), "the end of the other user's process")


ADA, BOB = Process(11, 1), Process(12, 2)
SHARED = Job(
    "key",
    "ada",
    {ADA: "serve", BOB: "serve"},
    (GpuKey("host", "GPU-0"),),
    frozenset((11, 12)),
    owner=Owner(OwnerKind.CONTAINER, "c" * 64),
    others={BOB: "bob"},
)


@pytest.mark.parametrize(
    ("users", "covered"), [(["ada"], False), (["bob"], False), (["ada", "bob"], True), ([], True)]
)
def test_a_rule_for_users_covers_a_job_only_if_it_names_all_of_its_users(users: list[str], covered: bool) -> None:
    rule = Idle.model_validate({"name": "r", "idle_for": "1h", "users": users})
    assert (why_not_covered(rule, SHARED, {"GPU-0"}, {}) is None) is covered


def test_the_name_of_one_user_does_not_mean_a_job_that_is_others_too() -> None:
    assert not matches(OneUser("ada"), who_is(SHARED))
    assert [process.user for process in SHARED.processes] == ["ada", "bob"]


def said_as(uid: int, say: Callable[[], object]) -> str:
    """What another user gets to hear, in a process of theirs."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresuid(uid, uid, uid)
            os.write(writes, str(say()).encode())
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def test_only_root_may_stop_a_job_of_several_users(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    world = World(simulated.environ)
    run = Run(world, Journal(str(tmp_path), world.clock.wall_s, print), Report(print))
    owners = KnownOwners(world, print)
    shared = ActionsOnProcesses(run, JobFinder(world, owners), owners, world.terminals())
    facts = OwnerFacts("web", pids=frozenset((11, 12)))
    its = Contact(facts, "have its engine stop it", lambda _: Outcome(True, ""))
    actions = OwnerJobActions(world, ProcessJobActions(shared, SHARED), its, print, SHARED)
    assert actions.forbidden(()) is None
    assert said_as(61001, lambda: actions.forbidden(())) == "pid 12 below it is bob's, not ada's"
