"""What the processes of a job used between two looks, by the counters of a kernel that is played here."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from fallow.core.process import Process
from fallow.engine.conditions.growth import Used, growth


@dataclass
class One:
    """A process in the kernel's books."""

    parent: int
    own: float = 0.0
    waited_for: float = 0.0


class Kernel:
    """Processes that work, fork and end, with what the kernel adds up for each."""

    def __init__(self) -> None:
        self.living = {1: One(0)}
        self.last = 1
        self.worked = 0.0

    def do(self, step: tuple[str, int, int]) -> None:
        what, choice, amount = step
        pid = sorted(self.living)[choice % len(self.living)]
        if what == "work":
            self.living[pid].own += amount
            self.worked += amount
        elif what == "fork":
            self.last += 1
            self.living[self.last] = One(pid)
        elif pid != 1:
            self._end(pid)

    def _end(self, pid: int) -> None:
        ended = self.living.pop(pid)
        self.living[ended.parent].waited_for += ended.own + ended.waited_for
        for other in self.living.values():
            if other.parent == pid:
                other.parent = 1  # the subreaper of the job, as with `fallow run`

    def look(self) -> dict[Process, Used]:
        return {Process(pid, pid): Used(one.parent, one.own + one.waited_for) for pid, one in self.living.items()}


STEPS = st.lists(
    st.tuples(st.sampled_from(["work", "work", "fork", "end"]), st.integers(0, 20), st.integers(1, 100)), max_size=12
)


@given(STEPS, STEPS)
def test_all_work_of_a_tree_that_is_waited_for_is_seen_and_none_twice(
    first: list[tuple[str, int, int]], then: list[tuple[str, int, int]]
) -> None:
    kernel = Kernel()
    for step in first:
        kernel.do(step)
    before, worked = kernel.look(), kernel.worked
    for step in then:
        kernel.do(step)
    grown = growth(before, kernel.look())
    real = kernel.worked - worked
    # Where a process ended that had worked more than its parent's counter grew by, it is taken as not waited for.
    assert grown >= 0
    survivors = kernel.look().keys() & before.keys()
    if survivors == before.keys():
        assert grown == real, "nothing that was seen before has ended"
    elif all(before[process].parent in (0, 1) for process in before):
        assert grown == real, "all that ended had a parent that is still there"


def test_a_child_that_ended_is_not_counted_again() -> None:
    before = {Process(1, 1): Used(0, 5.0), Process(2, 2): Used(1, 100.0)}
    assert growth(before, {Process(1, 1): Used(0, 105.0)}) == 0.0
    assert growth(before, {Process(1, 1): Used(0, 108.0)}) == 3.0


def test_a_child_whose_work_was_added_nowhere_hides_no_work_of_its_parent() -> None:
    before = {Process(1, 1): Used(0, 5.0), Process(2, 2): Used(1, 100.0)}
    assert growth(before, {Process(1, 1): Used(0, 8.0)}) == 3.0


def test_a_new_process_counts_with_all_that_it_did_and_a_pid_that_is_used_again_is_new() -> None:
    before = {Process(7, 1): Used(0, 50.0)}
    assert growth(before, {Process(7, 2): Used(0, 4.0)}) == 4.0
