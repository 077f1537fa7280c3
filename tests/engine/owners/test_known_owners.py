"""What is asked of owners once for all their jobs, and what is known of the jobs that they run."""

import pathlib
import signal

import pytest

from fallow.core.job import GpuKey, Job
from fallow.core.owner import Owner, OwnerKind
from fallow.core.process import Process
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.idle_rules.returned_jobs import ReturnedJobs
from fallow.engine.machine.world import World
from fallow.engine.owners.contact import Contact, Recent, contact
from fallow.readers.owners.traces import trace
from tests.conftest import Fallow
from tests.harness import ManualClock
from tests.real_owners import Jupyter, eventually


@pytest.mark.engine
@pytest.mark.more
def test_a_server_is_asked_once_for_all_its_kernels_also_those_without_a_notebook(
    fallow: Fallow, jupyter: Jupyter
) -> None:
    clock = ManualClock()
    world, recent = World(fallow.environ, clock=clock), Recent(clock)

    def name_of(pid: int) -> str:
        owner = trace(world.proc, pid)
        assert isinstance(owner, Owner)
        found = contact(world, owner, pid, recent)
        assert isinstance(found, Contact), found
        return found.facts.name

    pids = [jupyter.open(f"{name}.ipynb")[1] for name in ("one", "two")]
    kernel = jupyter.ask("POST", "api/kernels", {"name": "gpu0"})["id"]
    pids.append(int(eventually(lambda: jupyter.pid_of(kernel), "the kernel")))
    assert [name_of(pids[0]), name_of(pids[2])] == ["one.ipynb", f"kernel {kernel[:8]}"]
    jupyter.process.send_signal(signal.SIGSTOP)  # who asks it now gets no answer
    try:
        assert [name_of(pid) for pid in pids] == ["one.ipynb", "two.ipynb", f"kernel {kernel[:8]}"]
    finally:
        jupyter.process.send_signal(signal.SIGCONT)


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
