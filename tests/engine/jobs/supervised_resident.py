"""Supervises a job in driven time, again and again, in a process that has the stand-in driver loaded.

Each line on stdin: {"seconds", "timeout_s", "warmup_s", "every_s", "stuck_s", "pauses"}. Each answer: when
the job was asked to end, in seconds after its start, and what was told. At each of the `pauses`, in driven time, it
prints "paused" and waits for a line, so that the test can change the world.
"""

import json
import os
import sys
import tempfile
from typing import Any

from fallow.core.ports import Depth
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.jobs.foreground import ForegroundJobSource
from fallow.engine.jobs.job_state import JobRule
from fallow.engine.jobs.supervisor import Supervisor
from fallow.engine.jobs.usage import UsageMeter
from fallow.policies.idle import IdleRules
from fallow.policies.stuck import StuckRules
from tests.engine.driven import DrivenJob, RecordingActions, driven_world
from tests.harness import ManualClock


class PausingJob(DrivenJob):
    """Lets the test in at certain moments."""

    def __init__(self, clock: ManualClock, seconds: float, pauses: list[float]) -> None:
        super().__init__(clock, seconds)
        self._began_s = clock.now_s
        self._driven = clock
        self._pauses = pauses

    def wait_for_job(self, timeout_s: float) -> Any:
        ended = super().wait_for_job(timeout_s)
        while self._pauses and self._driven.now_s - self._began_s >= self._pauses[0]:
            self._pauses.pop(0)
            print(json.dumps("paused"), flush=True)
            sys.stdin.readline()
        return ended


def supervise(asked: dict[str, Any], folder: str) -> dict[str, Any]:
    """One job from its start to its end."""
    limit_s = float(os.environ.get("FALLOW_DRIVER_TIMEOUT", "2"))
    world, clock = driven_world(dict(os.environ), limit_s)
    began_s = clock.now_s
    told: list[str] = []
    journal = Journal(folder, clock.wall_s, told.append)
    job = PausingJob(clock, asked["seconds"], list(asked.get("pauses", [])))
    hands = RecordingActions(world, clock, job)
    gap_s = 3 * asked["every_s"]
    idle = IdleRules(asked["timeout_s"], warmup_s=asked["warmup_s"], longest_gap_s=gap_s)
    stuck = StuckRules(asked["stuck_s"], acts=True, longest_gap_s=gap_s) if "stuck_s" in asked else None
    gpus = tuple(gpu for gpu in world.gpu_reader.look(Depth.HOLDERS).gpus if gpu.index == 0)
    run = Run(world, journal, Report(told.append))
    source = ForegroundJobSource(world, job, gpus, "job")  # type: ignore[arg-type]
    rule = JobRule(idle, stuck)
    meter = UsageMeter([str(gpu.uuid) for gpu in gpus], rule.idle_below, gap_s)
    every_s = asked["every_s"]
    Supervisor(run, job, source, lambda _: hands, rule, meter, every_s=every_s).run()  # type: ignore[arg-type]
    journal.close()
    return {"asked_at_s": [at_s - began_s for at_s in hands.asked], "told": told}


def serve() -> None:
    """Answer until stdin ends."""
    with tempfile.TemporaryDirectory() as folder:
        while line := sys.stdin.readline():
            print(json.dumps(supervise(json.loads(line), folder)), flush=True)


if __name__ == "__main__":
    serve()
