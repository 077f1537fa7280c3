"""Watch the job of `fallow run` once a tick until it has ended; WarnAskKill stops it if it idles or hangs."""

from fallow.actuators.process.foreground_job import Supervision
from fallow.core.ports import Depth
from fallow.core.process import Ended
from fallow.core.reasons import Reason
from fallow.core.value import replace, value
from fallow.engine.history.run import Run
from fallow.engine.jobs.job_state import JobRule, JobState
from fallow.engine.jobs.ports import ActionsFor, JobSource
from fallow.engine.jobs.stop import who_still_holds
from fallow.engine.jobs.usage import UsageMeter, Used
from fallow.engine.jobs.warn_ask_kill import WarnAskKill


@value
class Result:
    """How the job ended, and why fallow stopped it, if it did."""

    ended: Ended | None
    stopped: Reason | None
    still_held: tuple[str, ...] = ()
    going_on: int = 0
    """How many processes of the job live on, unwatched."""
    used: Used = Used(0.0)
    """What it used."""


class Supervisor:
    """One job from its start to its end."""

    def __init__(
        self,
        run: Run,
        job: Supervision,
        source: JobSource,
        actions_for: ActionsFor,
        rule: JobRule,
        meter: UsageMeter,
        *,
        every_s: float = 1.0,
    ) -> None:
        self._run = run
        self._job = job
        self._source = source
        self._rule = rule
        self._meter = meter
        self._every_s = every_s
        self._driver = WarnAskKill(run, actions_for)
        self._began_s = run.world.clock.monotonic_s()
        self._state: JobState | None = None
        self._last_finding = ""

    def run(self) -> Result:
        """Return when the job has ended, or was stopped."""
        world = self._run.world
        self._meter.begin(world.gpu_reader.look(Depth.ALL))
        result = self._watch()
        for_s = world.clock.monotonic_s() - self._began_s
        return replace(result, used=self._meter.used(for_s))

    def _watch(self) -> Result:
        clock = self._run.world.clock
        next_s = self._began_s + self._every_s
        while not self._is_over(max(0.0, next_s - clock.monotonic_s())):
            self._tick()
            next_s = max(next_s + self._every_s, clock.monotonic_s())
        state = self._state
        why = None if state is None else state.asked_reason
        if state is None or why is None:
            going_on = len(self._job.tree.living())
            return Result(self._job.tree.ended, None, going_on=going_on)
        if state.killed:
            self._driver.name_survivors(state)
        still_held = tuple(who_still_holds(self._run.world, state.job.uuids))
        words = "; ".join(still_held) or "the memory of its GPUs is back"
        told = Reason("told", sentence=words, step="stopped")
        self._run.journal.outcome(state.job.subject, "stopped", told, state.job.keys)
        return Result(self._job.tree.ended, why, still_held)

    def _is_over(self, timeout_s: float) -> bool:
        state = self._state
        if state is not None and state.asked is not None:
            return self._job.wait_for_tree(timeout_s) or state.killed
        return self._job.wait_for_job(timeout_s) is not None

    def _tick(self) -> None:
        world = self._run.world
        snapshot = world.gpu_reader.look(Depth.ALL)
        for job in self._source.jobs(snapshot):
            if self._state is None:
                self._state = JobState(self._rule, job, self._began_s)
            self._state.follow(job)
            finding = self._state.finding(snapshot)
            if finding.activity != self._last_finding and self._state.asked is None:
                self._last_finding = finding.activity  # a row when it changes, not one a second
                self._run.journal.verdict(finding.verdict(job.subject), job.keys)
            protections = world.protections.active(world.clock.wall_s(), self._run.say)
            self._driver.look(self._state, snapshot, protections)
            self._meter.add(snapshot, job, self._state.hung_s)
