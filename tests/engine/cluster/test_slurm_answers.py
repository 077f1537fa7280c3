"""What squeue and scontrol say of a job is put together; where they disagree, nothing of it is believed."""

import pytest

from fallow.core.actions import Ask, Kill
from fallow.core.cluster import NodeGpu
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.engine.cluster.slurm import SlurmEngine
from fallow.engine.cluster.slurm_commands import SlurmCommands
from fallow.engine.machine.clock import SystemClock
from tests.readers.slurm.printed import job_line

QUEUE = "7|7|games|5|1794822104|RUNNING|1\n"
OWNER = "x UserId=news(9) GroupId=a(1) MCS_label=N/A Priority=1 Nice=0 Account=a QOS=b JobState=RUNNING Reason="


class Printed(SlurmCommands):
    """Commands that print what a test wrote."""

    def __init__(self, jobs: str) -> None:
        super().__init__({})
        self._jobs = jobs

    def text(self, name: str, *words: str) -> str | Unknown:
        if name == "squeue":
            return QUEUE
        return "" if words[-1] == "node" else self._jobs


@pytest.mark.parametrize(
    ("line", "is_believed"),
    [
        (job_line(), True),
        (job_line(user="news(9)"), False),
        (job_line(start="1794822105"), False),
        (job_line(name=OWNER), False),
        (job_line(8), False),
        ("", False),
    ],
)
def test_a_job_of_which_they_disagree_is_shown_and_never_stopped(line: str, *, is_believed: bool) -> None:
    jobs = SlurmEngine(SystemClock(), Printed(line)).look().jobs
    assert not isinstance(jobs, Unknown)
    (job,) = jobs
    assert (job.id, job.user, job.no_way is None) == ("7", "games", is_believed)
    assert job.places == ((NodeGpu("n1", 0), NodeGpu("n1", 1)) if is_believed else ())


class Silent(SlurmCommands):
    """Commands of a Slurm whose controller is gone."""

    def __init__(self) -> None:
        super().__init__({})

    def text(self, name: str, *words: str) -> str | Unknown:
        return Unknown("Unable to contact slurm controller")


def test_a_controller_that_is_gone_makes_everything_unknown_and_nothing_is_done() -> None:
    jobs = SlurmEngine(SystemClock(), Printed(job_line())).look().jobs
    assert not isinstance(jobs, Unknown)
    engine = SlurmEngine(SystemClock(), Silent())
    look = engine.look()
    assert [isinstance(each, Unknown) for each in (look.jobs, look.nodes, look.pending_gpus)] == [True] * 3
    why = Reason("as_asked")
    assert not engine.kill(jobs[0], Kill(why)).ok
    assert not engine.ask(jobs[0], Ask(why)).ok
