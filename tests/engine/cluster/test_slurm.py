"""Slurm's jobs, nodes and queue are seen as they are, and a job is warned, asked and ended by the right user only."""

import os
import subprocess
import sys
import time

import pytest

from fallow.core.actions import Ask, CancelWarning, Kill, Warn
from fallow.core.cluster import ClusterJob, NodeGpu
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.cluster.slurm import SlurmEngine, slurm_engine
from fallow.engine.machine.clock import SystemClock
from tests.places import LIMIT_S, REPOSITORY
from tests.real_slurm import Slurm
from tests.waiting import until

pytestmark = pytest.mark.engine

IDLE = Reason("nothing_ran", processes="pid 1", seconds=600)
WARN, BACK = Warn(IDLE, 600.0), CancelWarning(Reason("as_asked"))
ASK, KILL = Ask(IDLE, grace_s=60.0), Kill(IDLE)
DEAF = "trap 'echo asked >> {file}' TERM; echo up >> {file}; while :; do sleep 0.2; done"


@pytest.fixture
def engine(slurm: Slurm) -> SlurmEngine:
    return slurm_engine(SystemClock(), slurm.environ)


def jobs(engine: SlurmEngine) -> dict[str, ClusterJob]:
    found = engine.look().jobs
    assert not isinstance(found, Unknown), found
    return {job.id: job for job in found}


@pytest.mark.more
def test_jobs_of_all_kinds_are_listed_with_their_gpus(slurm: Slurm, engine: SlurmEngine) -> None:
    batch = slurm.running("--gres=gpu:2", "--account=phys", "--job-name=a b=c JobId=1")
    slurm.start("salloc", "--gres=gpu:1", "--nodelist=n2", "sleep", "1000")  # n1 has four: two, and one for each task
    array = slurm.submit("--gres=gpu:1", "--nodes=2", "--array=1-2", user="news")
    plain = slurm.running()
    found = until(lambda: jobs(engine), lambda seen: len(seen) == 4, pause_s=0.2)
    slurm.submit("--hold", "--gres=gpu:4")
    slurm.submit("--gres=gpu:4", "--nodes=2")  # last: what is submitted after a job that waits may wait behind it
    assert plain not in found, "it holds no GPU"
    job = found[batch]
    assert (job.name, job.user, job.places) == ("a b=c JobId=1", "games", (NodeGpu("n1", 0), NodeGpu("n1", 1)))
    assert job.labels == {"partition": "normal", "account": "phys", "nodes": "1"}
    assert isinstance(job.started_wall_s, float)
    assert abs(time.time() - job.started_wall_s) < LIMIT_S
    assert [each.user for each in found.values() if each.interactive] == ["root"]
    tasks = [found[f"{array}_{number}"] for number in (1, 2)]
    assert all(each.nodes == ("n1", "n2") and each.gpu_count == 2 and each.user == "news" for each in tasks)
    held = [place for each in found.values() for place in each.places]
    assert len(held) == len(set(held)) == 7
    # The one that its user holds back waits for no GPU; Slurm says soon why the other one waits.
    look = until(engine.look, lambda seen: seen.pending_gpus != 0, pause_s=0.2)
    assert look.pending_gpus == 8
    assert not isinstance(look.nodes, Unknown)
    assert [(node.name, node.gpus, node.trouble) for node in look.nodes] == [("n1", 4, None), ("n2", 4, None)]


@pytest.mark.more
def test_gpus_with_a_type_and_the_parts_of_a_heterogeneous_job_are_found() -> None:
    slurm = Slurm(gres="gpu:a100:4")
    try:
        parts = ("--gres=gpu:a100:1", "--output=/dev/null", "--chdir=/")
        job = slurm.said("sbatch", "--parsable", *parts, ":", *parts, "--wrap=exec sleep 1000", user="games")
        engine = slurm_engine(SystemClock(), slurm.environ)
        found = until(lambda: jobs(engine), lambda seen: job in seen and seen[job].gpu_count == 2, pause_s=0.2)
        assert engine.warn(found[job], WARN).ok
        assert "[fallow: " in slurm.said("squeue", "--noheader", f"--jobs={job}", "--format=%k")
        assert engine.kill(found[job], KILL).ok
        until(lambda: jobs(engine), lambda seen: seen == {}, pause_s=0.2)
        slurm.said("scontrol", "update", "nodename=n1", "state=drain", "reason=the fan is loud")
        fresh = slurm_engine(SystemClock(), slurm.environ).look().nodes
        assert not isinstance(fresh, Unknown)
        assert fresh[0].trouble is not None
        assert "the fan is loud" in fresh[0].trouble
    finally:
        slurm.close()


def test_a_job_is_warned_in_its_comment_and_its_output_and_the_warning_is_taken_back(
    slurm: Slurm, engine: SlurmEngine
) -> None:
    output = slurm.folder / "out"
    output.write_text("")
    output.chmod(0o666)
    comment = "run 7: x=y 'quoted\" [mine]"
    up = "echo up; exec sleep 100000"
    job = slurm.running("--gres=gpu:1", f"--comment={comment}", f"--output={output}", line=up)
    until(output.read_text, bool, pause_s=0.1)  # Slurm calls a job running before it has an output to write to
    before = jobs(engine)[job]
    warned = engine.warn(before, WARN)
    assert warned.ok, warned
    said = slurm.said("squeue", "--noheader", f"--jobs={job}", "--format=%k")
    assert said.startswith(f"{comment} [fallow: ")
    assert f"fallow protect slurm:{job}" in said
    until(output.read_text, lambda text: "it will be stopped in 10m" in text, pause_s=0.1)
    assert engine.warn(before, WARN).ok
    assert slurm.said("squeue", "--noheader", f"--jobs={job}", "--format=%k").count("[fallow: ") == 1
    assert engine.cancel(before, BACK).ok
    assert slurm.said("squeue", "--noheader", f"--jobs={job}", "--format=%k") == comment


def test_a_job_is_asked_then_cancelled_and_its_neighbours_are_not(slurm: Slurm, engine: SlurmEngine) -> None:
    said = slurm.folder / "said"
    said.write_text("")
    said.chmod(0o666)
    array = slurm.submit("--gres=gpu:1", "--array=1-2", line=DEAF.format(file=said))
    found = until(lambda: jobs(engine), lambda seen: len(seen) == 2, pause_s=0.2)
    until(said.read_text, lambda text: text.count("up") == 2, pause_s=0.1)  # who has no trap yet dies of SIGTERM
    # The second task has the number of the whole array: what is done to it must not be done to all.
    task, other = found[f"{array}_2"], found[f"{array}_1"]
    assert engine.way(task, ASK) == f"send it SIGTERM (scancel --signal=TERM --full {array}_2)"
    outcome = engine.ask(task, ASK)
    assert outcome.ok, outcome
    until(said.read_text, lambda text: "asked" in text, pause_s=0.1)
    assert engine.warn(task, WARN).ok
    assert engine.kill(task, KILL).ok
    left = until(lambda: jobs(engine), lambda seen: len(seen) == 1, pause_s=0.2)
    assert left == {other.id: other}
    assert "fallow" not in slurm.said("squeue", "--noheader", f"--jobs={other.id}", "--format=%k")
    assert said.read_text().count("asked") <= 2  # scancel sends SIGTERM too
    assert engine.kill(task, KILL).words == "it has ended"


@pytest.mark.more
def test_a_job_that_was_put_back_into_the_queue_is_another_one(slurm: Slurm, engine: SlurmEngine) -> None:
    job = slurm.running("--gres=gpu:1")
    before = jobs(engine)[job]
    assert isinstance(before.started_wall_s, float)
    refused = engine.kill(replace(before, started_wall_s=before.started_wall_s - 5), KILL)
    assert not refused.ok
    assert "started again" in refused.words
    assert slurm.state(job) == "RUNNING"
    assert engine.ask(before, replace(ASK, requeues=True)).ok
    until(lambda: jobs(engine), lambda seen: seen == {}, pause_s=0.2)
    until(lambda: slurm.state(job), lambda state: state == "PENDING", pause_s=0.2)
    assert engine.kill(before, KILL).words == "it has ended"
    assert slurm.state(job) == "PENDING", "it waits for its next run"


@pytest.mark.more
def test_a_job_of_another_user_under_the_same_number_is_left_alone(slurm: Slurm, engine: SlurmEngine) -> None:
    job = slurm.running("--gres=gpu:1", user="news")
    forged = replace(jobs(engine)[job], user="games")
    assert not engine.ask(forged, ASK).ok
    assert not engine.kill(forged, KILL).ok
    assert slurm.state(job) == "RUNNING"


@pytest.mark.as_root
def test_a_plain_user_cannot_cancel_a_job_of_another_and_is_told_which_right_is_missing(slurm: Slurm) -> None:
    job = slurm.running("--gres=gpu:1", user="news")
    script = (
        "import os, sys; from fallow.core.actions import *; from fallow.core.reasons import Reason;"
        "from fallow.engine.cluster.slurm import slurm_engine; from fallow.engine.machine.clock import SystemClock;"
        "engine = slurm_engine(SystemClock()); os.setgroups([]); os.setgid(60); os.setuid(5);"
        "job = engine.look().jobs[0]; why = Reason('as_asked');"
        "print(*(f'{each.words} {each.not_permitted}' for each in"
        " (engine.warn(job, Warn(why, 9.0)), engine.ask(job, Ask(why)),"
        " engine.kill(job, Kill(why)), engine.kill(job, Kill(why, requeues=True)))), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **slurm.environ},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert len(done.stdout.splitlines()) == 4, done.stderr
    for line in done.stdout.splitlines():
        assert "does not let games do this" in line
        assert line.endswith(" True"), "so that `fallow stop` exits with 77"
        assert "sacctmgr modify user games set AdminLevel=Operator" in line
    assert slurm.state(job) == "RUNNING"
    assert slurm.said("squeue", "--noheader", f"--jobs={job}", "--format=%k") == "(null)"
