"""What a job did on its own cards: its own processes first, the card in doubt, and never a guess."""

from typing import Any

import pytest

from fallow.core.gpu import Counters, Gpu, Holder, MigPlace, Recent
from fallow.core.job import Job, JobActivity, JobFinding, job_activity, stretch_load
from fallow.core.process import Process
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from tests.core.gpus import GIB, NOT_SUPPORTED, held, idle
from tests.policies.histories import key, snapshot
from tests.policies.loads import COPIES, FIVE_PER_CENT, HOLDS, NOTHING, PID, TABLE, Load, card

MINE = frozenset({PID})
LOST = "the GPU is lost: it has fallen off the bus"
QUIET, WORKING = Recent(1.0, 0.0, 0.0), Recent(1.0, 0.9, 1.0)


def judged(*gpus: Gpu, pids: frozenset[int] | Unknown = MINE, **rules: Any) -> JobFinding:
    return job_activity(snapshot(0.0, *gpus), [key(gpu.uuid) for gpu in gpus], pids, **rules)


def activity(*gpus: Gpu, pids: frozenset[int] | Unknown = MINE, **rules: Any) -> JobActivity:
    return judged(*gpus, pids=pids, **rules).activity


@pytest.mark.parametrize("load", TABLE, ids=lambda load: load.name)
def test_every_measured_load_but_rest_is_work(load: Load) -> None:
    expected = JobActivity.IDLE if load in (NOTHING, HOLDS) else JobActivity.BUSY
    assert activity(card(load)) is expected


def test_a_job_that_works_five_per_cent_of_each_second_is_busy_though_the_instant_reads_zero() -> None:
    gpu = card(FIVE_PER_CENT, utilization=0.0, counters=NOT_SUPPORTED)
    assert activity(gpu) is JobActivity.BUSY
    assert activity(gpu, idle_below=0.06) is JobActivity.IDLE


def test_nothing_is_below_a_threshold_of_zero() -> None:
    assert activity(held(), idle_below=0.0) is JobActivity.BUSY
    assert activity(held(), idle_below=0.001) is JobActivity.IDLE


def test_a_neighbours_work_is_not_the_jobs_where_the_driver_tells_them_apart() -> None:
    both = (Holder(PID, GIB, utilization=0.0), Holder(7, GIB, utilization=0.9))
    gpu = held(holders=both, recent=WORKING)
    assert activity(gpu) is JobActivity.IDLE
    assert activity(gpu, pids=frozenset({7})) is JobActivity.BUSY


def test_work_that_the_driver_says_is_nobodys_is_not_taken_from_a_job_by_who_sits_beside_it() -> None:
    """As copies are, of which it does not say whose they are."""
    both = (Holder(PID, GIB, utilization=0.0), Holder(7, GIB, utilization=0.0))
    assert activity(card(COPIES, holders=both)) is JobActivity.BUSY
    assert activity(card(HOLDS, holders=both)) is JobActivity.IDLE


def test_idleness_beside_others_that_ran_is_believed_only_after_minutes_more_for_each_of_them() -> None:
    """On an H200 the samples name one process five times a second: beside 48 busy ones a job was never named."""
    idle_one, loud = Holder(PID, GIB, utilization=0.0), Holder(7, GIB, utilization=0.9)
    one = judged(held(holders=(idle_one, loud), recent=WORKING))
    many = judged(held(holders=(idle_one, *(replace(loud, pid=7 + n) for n in range(48))), recent=WORKING))
    assert (one.believed_after_s, many.believed_after_s) == (310.0, 780.0)
    assert one.because.endswith("with 1 more on it that may hide its work: believed after 5m10s")


def test_idleness_is_believed_at_once_where_nobody_else_is_and_where_nothing_ran() -> None:
    both = (Holder(PID, GIB, utilization=0.0), Holder(7, GIB, utilization=0.0))
    assert judged(held(recent=QUIET)).believed_after_s == 0
    assert judged(held(holders=both, recent=QUIET)).believed_after_s == 0
    assert judged(held(holders=both, recent=Unknown("x"), utilization=0.0)).believed_after_s > 0


def test_one_shared_card_of_two_makes_the_idleness_of_the_job_as_doubtful() -> None:
    both = (Holder(PID, GIB, utilization=0.0), Holder(7, GIB, utilization=0.9))
    found = judged(held(0, recent=QUIET), held(1, holders=both, recent=WORKING))
    assert (found.activity, found.believed_after_s) == (JobActivity.IDLE, 310.0)


def test_where_the_driver_does_not_tell_them_apart_the_card_decides() -> None:
    both = (Holder(PID, GIB), Holder(7, GIB))
    assert activity(held(holders=both, recent=WORKING)) is JobActivity.BUSY
    assert activity(held(holders=both, recent=QUIET)) is JobActivity.IDLE


def test_a_job_in_a_container_whose_pids_are_not_ours_is_judged_by_the_card() -> None:
    assert activity(held(pid=4242, recent=WORKING)) is JobActivity.BUSY
    assert activity(held(holders=(), recent=WORKING)) is JobActivity.BUSY
    assert activity(held(recent=WORKING), pids=Unknown("its processes cannot be listed")) is JobActivity.BUSY


def test_what_the_samples_saw_is_the_jobs_when_nobody_else_is_there() -> None:
    assert activity(held(recent=WORKING)) is JobActivity.BUSY


def test_a_job_that_holds_nothing_is_idle() -> None:
    finding = judged(idle())
    assert finding.activity is JobActivity.IDLE
    assert "holds nothing" in finding.because


def test_one_busy_card_of_eight_makes_the_job_busy() -> None:
    assert activity(*(held(index) for index in range(7)), held(7, recent=WORKING)) is JobActivity.BUSY
    lost = held(6, trouble=LOST)
    assert activity(lost, held(7, recent=WORKING)) is JobActivity.BUSY


@pytest.mark.parametrize(
    "blind",
    [
        held(1, trouble=LOST),
        held(1, trouble=LOST, holders=()),
        held(1, holders=Unknown("x"), recent=Unknown("x")),
        held(1, holders=(Holder(PID, GIB),), recent=Unknown("the driver has no sample since the last look")),
        idle(1, memory=Unknown("x"), recent=Unknown("x")),
        held(1, uuid=Unknown("x")),
    ],
)
def test_one_card_that_cannot_be_judged_makes_the_job_unknown(blind: Gpu) -> None:
    wanted = ["GPU-00000000-0000-4000-8000-000000000000", "GPU-00000001-0000-4000-8000-000000000000"]
    finding = job_activity(snapshot(0.0, held(0), blind), [key(uuid) for uuid in wanted], MINE)
    assert finding.activity is JobActivity.UNKNOWN


def test_a_job_without_cards_is_unknown() -> None:
    assert activity() is JobActivity.UNKNOWN


def test_a_mig_instance_is_judged_by_its_counters() -> None:
    silent = Unknown("the driver does not report it for MIG instances")
    instance = held(
        mig=MigPlace(0, "GPU-1", 3),
        utilization=silent,
        recent=silent,
        holders=(Holder(PID, GIB, utilization=silent),),
    )
    assert activity(instance) is JobActivity.UNKNOWN
    assert activity(replace(instance, counters=Counters(0.0, 0.0, 0.0, 0.0))) is JobActivity.IDLE
    assert activity(replace(instance, counters=Counters(0.3, 0.0, 0.0, 0.0))) is JobActivity.BUSY
    copies = Counters(0.0, 0.0, 0.0, 0.011)
    assert activity(replace(instance, counters=copies)) is JobActivity.BUSY
    half_blind = Counters(0.0, 0.0, 0.0, Unknown("the GPU does not count it"))
    assert activity(replace(instance, counters=half_blind)) is JobActivity.UNKNOWN


def test_the_load_of_a_lost_card_is_unknown_whatever_was_read_before() -> None:
    assert stretch_load(held(trouble=LOST)) == Unknown(LOST)


def test_the_evidence_names_the_readings() -> None:
    verdict = judged(card(HOLDS)).verdict("job 12")
    assert verdict.subject == "job 12"
    assert verdict.finding == "idle"
    assert dict(verdict.evidence) == {
        "GPU 0 utilization": "0.0% on average, 0% at most in the last 1.0 s",
        "GPU 0 counters": "SM 0.0%, occupancy 0.0%, tensor 0.0%, DRAM 0.0%, floating point 0.0%",
        "GPU 0 power": "128 W",
        "GPU 0 pid 100": "ran 0% of the time",
    }


def test_the_clock_on_the_wall_changes_nothing() -> None:
    gpu = card(HOLDS)
    now, then = snapshot(5.0, gpu, wall_s=1e9), snapshot(5.0, gpu, wall_s=1e9 - 3600)
    assert job_activity(now, [key(gpu.uuid)], MINE) == job_activity(then, [key(gpu.uuid)], MINE)


def test_of_a_job_with_thousands_of_processes_64_are_named_in_the_journal() -> None:
    pids = range(1, 2001)
    gpu = held(holders=tuple(Holder(pid, GIB, utilization=0.0) for pid in pids))
    evidence = judged(gpu, pids=frozenset(pids)).verdict("job 1").evidence
    assert sum(" pid " in name for name, _ in evidence) == 64
    assert evidence[-1] == ("GPU 0 processes of the job", "and 1936 more")
    members = {Process(pid, 5000 - pid): "python" for pid in pids}
    job = Job("key", "ada", members, (key(gpu.uuid),), frozenset(pids))
    assert (len(job.keys), job.keys[0], job.keys[-1]) == (65, "pid:2000@3000", f"gpu:{gpu.uuid}")
    assert len(job.process_keys) == 2000
