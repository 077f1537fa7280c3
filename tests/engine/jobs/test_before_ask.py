"""The steps before a job is asked to end: in order, one at a time, whatever each takes and comes to."""

import threading

from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.core.findings import Outcome
from fallow.engine.jobs.before_ask import Beside, Step, Steps, Wait
from fallow.engine.machine.clock import SystemClock
from tests.harness import ManualClock
from tests.length import examples
from tests.places import LIMIT_S
from tests.waiting import until

PLANS = st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=4)


@settings(max_examples=examples(300))
@given(PLANS)
def test_each_step_begins_when_the_one_before_is_over_and_a_failure_keeps_none_of_them(
    plans: list[tuple[int, bool]],
) -> None:
    running: list[int] = []
    begun: list[int] = []

    def step(number: int, looks: int, ok: bool) -> Step:
        left = [looks]

        def wait() -> Outcome | None:
            left[0] -= 1
            if left[0] >= 0:
                return None
            running.remove(number)
            return Outcome(ok, str(number))

        def begin() -> Wait:
            begun.append(number)
            running.append(number)
            assert running == [number], "one at a time"
            return wait

        return Step(str(number), begin)

    steps = Steps([step(number, *plan) for number, plan in enumerate(plans)])
    outcomes: list[Outcome] = []
    looks = 0
    while not steps.is_over:
        looks += 1
        outcomes += [outcome for _, outcome in steps.advance() if outcome is not None]
    assert outcomes == [Outcome(ok, str(number)) for number, (_, ok) in enumerate(plans)]
    assert begun == list(range(len(plans)))
    assert looks == (1 + sum(looks for looks, _ in plans) if plans else 0)
    assert list(steps.advance()) == [], "nothing is done twice"


def test_work_that_never_ends_is_over_after_its_time() -> None:
    clock, stuck = ManualClock(), threading.Event()

    def work() -> Outcome:
        stuck.wait(LIMIT_S)
        return Outcome(True, "late")

    wait = Beside("save", work, clock.monotonic_s, 60.0)
    clock.sleep(59.0)
    assert wait() is None
    clock.sleep(1.0)
    assert wait() == Outcome(False, "save takes too long")
    stuck.set()


def test_work_that_breaks_has_failed() -> None:
    def work() -> Outcome:
        raise OSError("no \033[2J disk")

    wait = Beside("save", work, SystemClock().monotonic_s, 60.0)
    assert until(wait) == Outcome(False, "save failed: no ?[2J disk")
