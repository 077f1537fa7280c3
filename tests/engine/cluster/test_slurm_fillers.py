"""Fillers on a real Slurm fill its idle cards, give them back to normal jobs, and end with the daemon."""

import json
import pathlib
import signal
import time
from contextlib import closing
from typing import Any

import pytest

from fallow.core.cluster import ClusterJob, ClusterNode, Engine, NodeGpu
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.engine.cluster.compose import protect_rules
from fallow.engine.cluster.filler import SlurmFiller, SlurmFillerSpec, idle_gpus
from fallow.engine.cluster.ports import EngineLook
from fallow.engine.cluster.slurm import SlurmEngine
from fallow.engine.cluster.slurm_commands import SlurmCommands
from fallow.engine.config.load import understand
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.machine.clock import SystemClock
from fallow.engine.machine.world import World
from tests.conftest import Fallow
from tests.engine.cluster.planned import PlannedCluster, job, reading
from tests.places import LIMIT_S
from tests.real_slurm import Slurm
from tests.waiting import PROGRAM_S, until

CONFIG = """
[page]
enabled = false

[cluster]
engine = "slurm"
every = "1s"

[[filler]]
name = "science"
engine = "slurm"
partition = "scavenger"
user = "games"
command = ["sh", "-c", "echo \\"$SIZE of $USER\\"; exec sleep 100000"]
log = "{log}"
env = {{ SIZE = "a b" }}
"""
SPEC = SlurmFillerSpec("science", ("sleep", "100000"), "scavenger", "games")


def fillers(slurm: Slurm, *states: str) -> int:
    """Return how many jobs of the filler are in these states."""
    words = ("squeue", "--noheader", "--array", "--name=fallow-filler-science", "--format=%T")
    return sum(state in states for state in slurm.said(*words).split())


def cluster_of(fallow: Fallow) -> dict[str, Any]:
    """Return what the daemon says of the cluster; nothing before it has looked."""
    done = fallow("status", "--cluster", "--json")
    return json.loads(done.stdout) if done.returncode == 0 else {}


def start_of(slurm: Slurm, *options: str) -> tuple[str, float]:
    """Submit a job of a normal user; return its id, and how long it took until it ran."""
    began_s = time.monotonic()
    job = slurm.submit(*options, user="news")
    until(lambda: slurm.state(job), lambda state: state == "RUNNING", pause_s=0.05)
    return job, time.monotonic() - began_s


@pytest.mark.more
@pytest.mark.engine
def test_fillers_fill_8_cards_make_way_for_a_job_and_are_back_after_it(
    slurm: Slurm, simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    log = slurm.folder / "log"
    log.touch()
    log.chmod(0o666)
    config = tmp_path / "fallow.toml"
    config.write_text(CONFIG.format(log=log))
    daemon = simulated.start("up", "--config", str(config), SLURM_CONF=str(slurm.conf))
    until(lambda: fillers(slurm, "RUNNING"), lambda count: count == 8, pause_s=0.2)
    until(lambda: log.read_text().count("a b of"), lambda count: count == 8, pause_s=0.2)
    told = until(lambda: cluster_of(simulated), lambda facts: facts.get("filled_gpus") == 8, pause_s=PROGRAM_S)
    assert [told[f"{state}_gpus"] for state in ("free", "busy", "idle", "unknown", "total")] == [0, 0, 0, 0, 8]
    assert {job["activity"] for job in told["jobs"]} == {"filled"}
    assert "8 of 8 GPUs available (8 filled), none held and idle" in simulated("status", "--cluster").stdout
    starts_s, backs_s = [], []
    for _ in range(3):  # the fastest counts: on a machine on which much else runs, one may take long
        job, start_s = start_of(slurm, "--gres=gpu:2")
        starts_s.append(start_s)
        until(lambda: fillers(slurm, "RUNNING"), lambda count: count == 6, pause_s=0.1)
        slurm.said("scancel", job)
        began_s = time.monotonic()
        until(lambda: fillers(slurm, "RUNNING"), lambda count: count == 8, pause_s=0.1)
        backs_s.append(time.monotonic() - began_s)
        assert fillers(slurm, "RUNNING", "PENDING") == 8
    assert min(starts_s) < 3, starts_s
    assert min(backs_s) < 10, backs_s
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(LIMIT_S) == -signal.SIGTERM, daemon.communicate(timeout=LIMIT_S)
    until(lambda: fillers(slurm, "RUNNING", "PENDING"), lambda count: count == 0, pause_s=0.2)


def filler(slurm: Slurm, said: list[str], *, dry_run: bool = False) -> tuple[SlurmFiller, SlurmEngine]:
    clock = SystemClock()
    commands = SlurmCommands(clock, slurm.environ)
    journal = Journal(str(slurm.folder / "journal"), clock.wall_s, said.append)
    return SlurmFiller(SPEC, commands, clock, said.append, journal, dry_run=dry_run), SlurmEngine(clock, commands)


@pytest.mark.more
@pytest.mark.engine
def test_a_dry_run_submits_nothing_and_only_cards_that_nobody_holds_are_filled(slurm: Slurm) -> None:
    slurm.running("--gres=gpu:3", user="news")
    said: list[str] = []
    dry, engine = filler(slurm, said, dry_run=True)
    dry.top_up(engine.look)
    dry.top_up(engine.look)
    assert said == ["filler science: would submit 5 jobs to the partition scavenger"]
    assert fillers(slurm, "RUNNING", "PENDING") == 0
    real, engine = filler(slurm, said)
    assert real.top_up(engine.look) == 5
    assert real.top_up(engine.look) == 0
    until(lambda: fillers(slurm, "RUNNING"), lambda count: count == 5, pause_s=0.2)
    mine = slurm.running("--job-name=fallow-filler-science", "--partition=normal")
    real.end(Reason("fallow_ends"))
    until(lambda: fillers(slurm, "RUNNING", "PENDING"), lambda count: count == 1, pause_s=0.2)
    assert slurm.state(mine) == "RUNNING", "it is in no partition of the filler"


@pytest.mark.more
@pytest.mark.engine
def test_a_controller_that_is_gone_makes_no_submits(slurm: Slurm) -> None:
    said: list[str] = []
    real, engine = filler(slurm, said)
    slurm.stop_controller()
    assert real.top_up(engine.look) == 0
    assert "no job is submitted" in said[0]
    slurm.start_controller()
    assert fillers(slurm, "RUNNING", "PENDING") == 0


def in_journal(folder: pathlib.Path, sbatch: str, *, dry_run: bool = False) -> list[tuple[str, str, str]]:
    """Let a filler submit and cancel by commands that only print; return what the journal has, in order."""
    for name, line in {"squeue": "true", "scancel": "true", "sbatch": sbatch}.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    clock = SystemClock()
    journal = Journal(str(folder / "journal"), clock.wall_s, print)
    commands = SlurmCommands(clock, {"PATH": f"{folder}:/usr/bin:/bin"})
    made = SlurmFiller(SPEC, commands, clock, print, journal, dry_run=dry_run)
    made.top_up(lambda: EngineLook((JOB,), NODES, 0))
    made.top_up(lambda: EngineLook((JOB,), NODES, 0))
    made.end(Reason("fallow_ends"))
    events = journal.last("partition:scavenger")[::-1]
    journal.close()
    assert {event.subject for event in events} == {"filler science"}
    return [(event.kind, event.finding, event.because) for event in events]


WHY = "GPUs of the partition scavenger that no job holds: 2; its jobs that wait: 0"


def test_what_a_filler_submits_and_cancels_is_in_the_journal_with_why_and_what_came_of_it(
    tmp_path: pathlib.Path,
) -> None:
    written = in_journal(tmp_path, "echo 4711")
    assert written[:2] == [("action", "submit 2 jobs", WHY), ("outcome", "submit 2 jobs", "Slurm job 4711")]
    assert written[-2:] == [
        ("action", "cancel its jobs", "fallow is ended"),
        ("outcome", "cancel its jobs", "Slurm was told to cancel them"),
    ]


def test_a_submit_that_slurm_refuses_is_in_the_journal_too(tmp_path: pathlib.Path) -> None:
    written = in_journal(tmp_path, "echo 'sbatch: error: no such partition' >&2; exit 1")
    assert written[1] == ("outcome", "submit 2 jobs", "sbatch: error: no such partition")


def test_a_dry_run_is_in_the_journal_once_and_called_one(tmp_path: pathlib.Path) -> None:
    assert in_journal(tmp_path, "exit 1", dry_run=True) == [("action", "dry run: submit 2 jobs", WHY)]


@pytest.mark.engine
@pytest.mark.more
def test_a_name_that_reads_like_a_field_of_slurm_keeps_no_filler_from_the_cards_of_the_cluster(slurm: Slurm) -> None:
    """One job of any user with such a name ended the filling of the whole cluster."""
    slurm.running("--gres=gpu:3", "--job-name=x UserId=games(5) ", user="news")
    slurm.running("--gres=gpu:1", user="news")
    commands = SlurmCommands(SystemClock(), slurm.environ)
    look = SlurmEngine(SystemClock(), commands).look()
    assert not isinstance(look.jobs, Unknown)
    assert [job.no_way is None for job in look.jobs] == [False, True]
    assert idle_gpus(look, "scavenger") == 4


JOB = ClusterJob(Engine.SLURM, "7", "train", "ada", (NodeGpu("n1", 0), NodeGpu("n1", 1)), 1.0)
NODES = (
    ClusterNode("n1", 4, {"partition": "normal,scavenger"}),
    ClusterNode("n2", 4, {"partition": "normal"}),
    ClusterNode("n3", 4, {"partition": "scavenger"}, "drained"),
)


def test_only_idle_cards_of_the_partition_on_nodes_in_order_count() -> None:
    assert idle_gpus(EngineLook((JOB,), NODES, 0), "scavenger") == 2


@pytest.mark.parametrize(
    "look",
    [
        EngineLook(Unknown("gone"), NODES, 0),
        EngineLook((JOB,), Unknown("gone"), 0),
        EngineLook((ClusterJob(Engine.SLURM, "8", "x", "ada", (), 1.0, no_way="unclear"),), NODES, 0),
    ],
)
def test_what_is_unknown_leaves_no_card_idle(look: EngineLook) -> None:
    assert isinstance(idle_gpus(look, "scavenger"), Unknown)


def test_a_rule_leaves_the_fillers_of_its_own_daemon_alone_and_nobody_else_who_takes_their_name(
    tmp_path: pathlib.Path,
) -> None:
    text = """[[filler]]
name = "science"
engine = "slurm"
partition = "scavenger"
user = "news"
command = ["/bin/sleep", "60"]
"""
    world = World({})
    with closing(Journal(str(tmp_path / "own"), world.clock.wall_s, print)) as journal:
        run = Run(world, journal, Report(print))
        protect = protect_rules(run, understand(text, "fallow.toml"))
    cluster = PlannedCluster(tmp_path, protect=protect)
    named = {"name": "fallow-filler-science", "labels": {"partition": "scavenger"}}
    cluster.engine.jobs = [job(7, 1, user="news", **named), job(8, 1, first=1, user="ada", **named)]
    cluster.eyes.gpus = [reading(0, 0.0), reading(1, 0.0)]
    cluster.minutes(60)
    assert cluster.done == ["warn 8", "ask 8", "kill 8"]
    assert "it is a filler of fallow" in str(cluster.view(7).left_alone)
    cluster.journal.close()
