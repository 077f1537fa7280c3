"""A job counts as idle only if the daemon has seen all of its GPUs idle, for as long as it lives: never in doubt."""

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.core.activity import Activity
from fallow.core.board import Counting
from fallow.core.gpu import Holder
from fallow.core.gpu_status import Status
from fallow.core.job import GpuKey, Job
from fallow.core.process import Process
from fallow.core.reservations import Claim
from fallow.core.value import replace
from fallow.engine.machine.world import World
from fallow.engine.stop.idleness import Idleness, Witness
from fallow.readers.proc import TICKS_PER_S
from tests.engine.history.life import gpu_status
from tests.length import examples

MACHINE = World({"FALLOW_SIMULATE": "4xH100"})
SEEN = st.lists(
    st.tuples(st.sampled_from(list(Activity)), st.one_of(st.none(), st.floats(0, 1e6))), min_size=1, max_size=4
)


def job(gpus: int, age_s: float = 1e6, doubtful: bool = False) -> Job:
    up_s = MACHINE.proc.uptime_s()
    assert up_s is not None
    birth = int((up_s - age_s) * TICKS_PER_S)
    keys = tuple(GpuKey("box", str(gpu_status(index, Activity.IDLE).uuid)) for index in range(gpus))
    members = {Process(os.getpid(), birth): "python"}
    return Job("key", "ada", members, keys, frozenset({os.getpid()}), keys[:1] if doubtful else ())


def witness(seen: list[tuple[Activity, float | None]], counting: tuple[Counting, ...] = ()) -> Witness:
    gpus = tuple(replace(gpu_status(index, doing), for_s=for_s) for index, (doing, for_s) in enumerate(seen))
    return Witness(MACHINE, Status("box", False, 1000.0, gpus), counting, None)


@settings(max_examples=examples(600))
@given(SEEN, st.floats(0, 1e5), st.booleans(), st.integers(0, 1))
def test_a_yes_needs_every_gpu_idle_and_a_process_that_lived_through_it(
    seen: list[tuple[Activity, float | None]], age_s: float, doubtful: bool, unseen: int
) -> None:
    found = witness(seen).idleness(job(len(seen) + unseen, age_s, doubtful))
    surely = all(doing is Activity.IDLE and for_s is not None and for_s >= 12 for doing, for_s in seen)
    if not (surely and age_s > 11.9 and not doubtful and not unseen):
        assert found.for_s is None
    assert (found.for_s is None) == (found.not_idle is not None)
    if found.for_s is not None:
        assert found.for_s <= min(age_s + 1, *(for_s or 0 for _, for_s in seen))


def test_who_came_after_the_daemon_looked_is_not_idle_for_another_who_was_there() -> None:
    one, quiet = job(1), replace(gpu_status(0, Activity.IDLE), for_s=7200.0)

    def beside(*pids: int, claim: Claim | None = None) -> Idleness:
        holders = tuple(Holder(pid, 2**30) for pid in pids)
        gpus = (replace(quiet, holders=holders, claim=claim),)
        return Witness(MACHINE, Status("box", False, 1000.0, gpus), (), None).idleness(one)

    neighbour, newcomer = 1, os.getpid()
    assert beside(neighbour).for_s is None
    assert f"the daemon has not seen pid {newcomer} on its GPUs yet" in str(beside(neighbour).not_idle)
    assert beside(neighbour, newcomer).for_s == 7200.0
    assert beside(neighbour, claim=Claim(False, newcomer, "ada", "train")).for_s == 7200.0
    assert beside().for_s == 7200.0, "the driver lists nobody, so it does not say who is new"


def counting(for_s: float, one: Job) -> Counting:
    return Counting("rule", "job", one.uuids, one.process_keys, "idle", for_s, "warn", 10.0)


def test_a_job_is_idle_only_if_its_gpu_is_and_every_rule_counts_it_so() -> None:
    one = job(1)
    busy: list[tuple[Activity, float | None]] = [(Activity.BUSY, 5.0)]
    idle: list[tuple[Activity, float | None]] = [(Activity.IDLE, 90.0)]
    assert witness(idle, (counting(90.0, one), counting(60.0, one))).idleness(one).for_s == 60.0
    assert witness(idle, (counting(90.0, one), counting(0.0, one))).idleness(one).for_s is None
    short = witness(idle, (counting(90.0, one), counting(3.0, one))).idleness(one)
    assert str(short.not_idle) == "it is not idle: the rule rule counts it as idle for 3s only"
    assert witness(busy, (counting(90.0, one),)).idleness(one).for_s is None
    assert witness(idle, (replace(counting(0.0, one), processes=()),)).idleness(one).for_s == 90.0
    assert witness(idle, (replace(counting(0.0, one), fault="stuck"),)).idleness(one).for_s == 90.0
    for doubt in ({"paused": "file:/x cannot be told"}, {"left_alone": "ada protects it"}, {"begins_in_s": 40.0}):
        uncounted = replace(counting(90.0, one), **doubt)
        assert witness(idle, (uncounted,)).idleness(one).not_idle is not None


def test_without_a_daemon_or_with_one_that_does_not_answer_nothing_is_known() -> None:
    for trouble, says in ((None, "no `fallow up` runs"), ("it is busy", "it is busy")):
        found = Witness(MACHINE, None, (), trouble).idleness(job(1))
        assert found.for_s is None
        assert found.not_idle is not None
        assert says in str(found.not_idle)
