"""What the daemon remembers of the last minutes: means of steps, bounded, and never what it has not seen."""

from fallow.core.activity import Activity
from fallow.core.gpu import Memory
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.daemon.recent import RecentMinutes


def seen(wall_s: float, load: float | Unknown, activity: Activity = Activity.BUSY) -> Status:
    gpu = GpuStatus(0, "GPU-0", "H100", load, 0.0, Memory(8, 0, 8, 0), (), 40)
    return Status("box", False, wall_s, (replace(gpu, activity=activity),))


def told(recent: RecentMinutes) -> list[tuple[int, float | None, Activity]]:
    return [(step.begin_wall_s, step.gpus["0"].load, step.gpus["0"].activity) for step in recent.steps]


def test_a_step_has_the_mean_of_the_load_and_the_last_activity() -> None:
    recent = RecentMinutes()
    recent.add(seen(1000.0, 1.0))
    recent.add(seen(1002.0, Unknown("the driver does not tell")))
    recent.add(seen(1004.0, 0.5, Activity.FREE))
    recent.add(seen(1011.0, Unknown("the driver does not tell"), Activity.UNKNOWN))
    assert told(recent) == [(1000, 0.75, Activity.FREE), (1010, None, Activity.UNKNOWN)]


def test_it_keeps_five_minutes_and_no_more() -> None:
    recent = RecentMinutes()
    for second in range(2000):
        recent.add(seen(5000.0 + second, 0.0))
    assert (len(recent.steps), recent.steps[0].begin_wall_s) == (61, 6695)


def test_a_clock_that_is_set_back_forgets_what_cannot_be_placed_any_more() -> None:
    recent = RecentMinutes()
    recent.add(seen(9000.0, 0.0))
    recent.add(seen(1000.0, 0.5))
    assert told(recent) == [(1000, 0.5, Activity.BUSY)]


def test_a_reader_keeps_what_it_has_read() -> None:
    recent = RecentMinutes()
    recent.add(seen(1000.0, 1.0))
    before = recent.steps
    recent.add(seen(1001.0, 0.0))
    assert before[0].gpus["0"].load == 1.0
    assert recent.steps[0].gpus["0"].load == 0.5
