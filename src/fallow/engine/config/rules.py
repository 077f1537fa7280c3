"""`[[idle]]`, `[protect]` and `[[guard]]`: what may be done to processes and to the machine, and what never."""

from fallow.core.protections import ProtectedForGood
from fallow.engine.config import types
from fallow.engine.config.base import Section, by_default
from fallow.engine.jobs.before_ask import BeforeAsk, Command
from fallow.engine.owners.opt_outs import OptOuts
from fallow.policies.arbiter import ProtectRules, RateLimit
from fallow.policies.guard import Across, GuardRules
from fallow.policies.idle import IdleRules, When
from fallow.policies.stuck import StuckRules

_USUAL_NOTICE_S = 600.0


class Idle(Section):
    """Find processes that hold GPUs without using them; stop them only with `act = true`."""

    name: types.Name
    """The name that status, page and messages show; each rule needs its own."""
    act: types.Flag = by_default(False)
    """Warn the people of a job, then send `signal`, then SIGKILL. Without it the rule only reports."""
    action: types.OnIdle = by_default("stop")
    """What is done with an idle job: `stop` it, `park` it (its memory leaves the GPU, its process stays), or both."""
    idle_for: types.SomeTime | None = by_default(None)
    """How long a job may hold GPUs without using them."""
    stuck_for: types.SomeTime | None = by_default(None)
    """How long a job may hang at 100 % utilization."""
    when: When = by_default("always")
    """When an idle job is warned and stopped: `always`, or only while a launch waits for its GPU: `wanted`."""
    idle_below: types.SomeShare = by_default(1)
    """The utilization in per cent below which a job is idle."""
    warmup: types.Duration = by_default("60s")
    """How long after its start a job is never called idle."""
    warn_before: types.SomeTime | None = by_default(None)
    """How long before the signal people are warned; without it 10 minutes, or half of a shorter time."""
    grace: types.Duration = by_default("60s")
    """How long after the signal a job gets SIGKILL."""
    signal: types.Signal = by_default("TERM")
    """The signal that asks a job to end."""
    warn_signal: types.WarnSignal | None = by_default(None)
    """The signal that goes with the warning to the job's processes on GPUs, to those that catch it, as `"USR1"`."""
    dump_stacks: types.Flag = by_default(False)
    """Write the Python stacks of a job to a file before the signal (needs py-spy)."""
    before: types.RunLine | None = by_default(None)
    """A command that runs as the job's user before the job is asked to end, as `"run:save-work"`."""
    before_limit: types.SomeTime = by_default("60s")
    """How long `before` may take; then it is killed, and the job is asked to end."""
    before_as_root: types.Flag = by_default(False)
    """Run `before` for jobs of root too, as root. Without it root's jobs are asked to end without it."""
    unless: types.Several[types.JobCondition] = by_default(())
    """Conditions under which a job is in use though it is idle on its GPUs, as `cpu:50` or `jupyter`."""
    gpus: types.Gpus = by_default("all")
    """The GPUs that it watches; a job that holds others too is not judged."""
    users: types.Several[types.Text] = by_default(())
    """The users whose jobs it judges; all if none is named."""
    commands: types.Several[types.Text] = by_default(())
    """Shell patterns of the commands that it judges; every process of a job must fit one; all if none is given."""

    @property
    def before_ask(self) -> BeforeAsk:
        """Return what is done before a job is asked to end."""
        command = None if self.before is None else Command(self.before, self.before_limit, self.before_as_root)
        return BeforeAsk(self.dump_stacks, command)

    def idle_rules(self, longest_gap_s: float) -> IdleRules | None:
        """Return the rules of the policy against idle jobs; None if this one does not look for them."""
        if self.idle_for is None:
            return None
        notice_s = self._notice_s(self.idle_for)
        return IdleRules(self.idle_for, self.grace, longest_gap_s, notice_s, self.signal, self.warmup, self.when)

    def stuck_rules(self, longest_gap_s: float) -> StuckRules | None:
        """Return the rules of the policy against jobs that hang; None if this one does not look for them."""
        if self.stuck_for is None:
            return None
        acts = self.act and "stop" in self.action  # a job that hangs does not come to rest, so it cannot be parked
        return StuckRules(
            self.stuck_for, self.grace, longest_gap_s, self._notice_s(self.stuck_for), self.signal, acts
        )

    def _notice_s(self, timeout_s: float) -> float:
        return min(_USUAL_NOTICE_S, timeout_s / 2) if self.warn_before is None else self.warn_before


class Protect(Section):
    """What nothing in this file ever stops, and how many jobs may be stopped at most."""

    users: types.Several[types.Text] = by_default(())
    """Users whose processes are never stopped."""
    groups: types.Several[types.Text] = by_default(())
    """Groups of users whose processes are never stopped."""
    commands: types.Several[types.Text] = by_default(())
    """Shell patterns of commands that are never stopped: of the whole line or of one word of it, as `jupyter*`."""
    units: types.Several[types.Unit] = by_default(())
    """Shell patterns of systemd units that are never stopped, as `ollama.service`."""
    notebooks: types.Several[types.Notebooks] = by_default(())
    """Folders, or shell patterns of paths, whose notebooks are never stopped, as `/home/*/thesis`."""
    at_most: types.Count = by_default(5)
    """How many jobs may be stopped within the time of `per`; further ones wait."""
    per: types.SomeTime = by_default("10m")
    """The time to which `at_most` applies."""

    @property
    def protect_rules(self) -> ProtectRules:
        """Return the protected users, groups and commands as the arbiter takes them."""
        return ProtectRules(frozenset(self.users), self.commands, self.groups)

    @property
    def opt_outs(self) -> OptOuts:
        """Return the protected units and notebooks."""
        return OptOuts(self.units, self.notebooks)

    @property
    def for_good(self) -> ProtectedForGood:
        """Return all that is named here, as the daemon tells it."""
        return ProtectedForGood(self.users, self.groups, self.commands, self.units, self.notebooks)

    @property
    def limit(self) -> RateLimit:
        """Return the limit of stopped jobs as the arbiter takes it."""
        return RateLimit(self.at_most, self.per)


class Guard(Section):
    """Wait until GPUs are in use, then until they are idle, then act once, as in `fallow guard`."""

    name: types.Name
    """The name that status, page and messages show; each guard needs its own."""
    action: types.OneOrMore[types.Action]
    """What to do, in order: `run:CMD`, `notify:URL`, `shutdown` or `reboot`."""
    enabled: types.Flag = by_default(True)
    """Whether the guard runs at all."""
    dry_run: types.Flag = by_default(False)
    """Carry out no action, only say what it would be."""
    gpus: types.Gpus = by_default("all")
    """The GPUs that it watches."""
    arm_above: types.Share = by_default(10)
    """The utilization in per cent above which a GPU is in use."""
    arm_for: types.Duration = by_default("60s")
    """How long GPUs must be in use before the guard is armed."""
    idle_below: types.SomeShare = by_default(5)
    """The utilization in per cent below which a GPU is idle."""
    idle_for: types.SomeTime = by_default("30m")
    """How long GPUs must be idle before the guard acts."""
    across: Across = by_default("all")
    """Which GPUs must be idle: `all`, `any` of them, or their `mean`."""
    unless: types.Several[types.Condition] = by_default(())
    """Conditions under which it does not act: `users`, `users:10m`, `cpu:P` or `process:NAME`."""
    countdown: types.Duration = by_default("60s")
    """How long people have to prevent a shutdown or reboot."""
    user: types.Text | None = by_default(None)
    """The user that `run:CMD` runs as. A daemon of root needs it; write `"root"` to run it as root."""

    def rules(self, longest_gap_s: float) -> GuardRules:
        """Return the rules of the policy."""
        return GuardRules(
            actions=self.action,
            arm_above=self.arm_above,
            arm_for_s=self.arm_for,
            idle_below=self.idle_below,
            idle_for_s=self.idle_for,
            across=self.across,
            countdown_s=self.countdown,
            longest_gap_s=longest_gap_s,
        )
