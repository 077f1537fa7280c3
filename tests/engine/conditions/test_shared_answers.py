"""Who asks the same of the same GPU within a second gets the same answer, which costs nothing."""

import pathlib
import subprocess

import pytest

from fallow.core.activity import Activity
from fallow.core.idle_answer import idle_answers
from fallow.engine.conditions.gpus import GpuConditions, IdleQuestion
from fallow.engine.machine.world import World
from tests.conftest import Fallow
from tests.engine.history.life import gpu_status, holder, status
from tests.waiting import until


class Clock:
    """A clock that only the test moves."""

    now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_s(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


@pytest.mark.more
def test_an_answer_stands_for_a_second_for_all_who_ask_and_then_it_is_asked_anew(tmp_path: pathlib.Path) -> None:
    clock = Clock()
    conditions = GpuConditions(World(Fallow(tmp_path).environ, simulate="4xH100", clock=clock), print)
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as job:
        seen = status(100.0, gpu_status(0, Activity.IDLE, holder(job.pid)))

        def ask(condition: str) -> IdleQuestion:
            return conditions.ask([condition], seen, idle_answers(seen, 0.0, 100.0))

        def look(question: IdleQuestion) -> object:
            clock.now_s += 0.01
            return question.look()

        try:
            first = ask("cpu:5")
            found = until(lambda: look(first), pause_s=0.02)
            assert ask("cpu:5").look() == found
            assert ask("cpu:6").look() is None, "another condition"
            clock.now_s += 1.1
            assert ask("cpu:5").look() is None
        finally:
            job.kill()
