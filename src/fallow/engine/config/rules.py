"""`[[idle]]`, `[protect]` and `[[guard]]`: what may be done to processes and to the machine, and to whom never."""

from fallow.engine.config.base import Section, by_default
from fallow.engine.config.types import (
    Action,
    Condition,
    Count,
    Duration,
    Flag,
    Gpus,
    Name,
    OneOrMore,
    Several,
    Share,
    Signal,
    SomeTime,
    Text,
)
from fallow.policies.arbiter import ProtectRules, RateLimit
from fallow.policies.guard import Across, GuardRules
from fallow.policies.idle import IdleRules
from fallow.policies.stuck import StuckRules

_LONGEST_NOTICE_S = 600.0


class Idle(Section):
    """Find people's processes that hold cards without using them; stop them only with `act = true`."""

    name: Name
    """What the rule is called on every face; no two have the same."""
    act: Flag = by_default(False)
    """Warn, ask and insist. Without it the rule only reports."""
    idle_for: SomeTime | None = by_default(None)
    """How long a process may hold cards without using them."""
    stuck_for: SomeTime | None = by_default(None)
    """How long a process may hang at 100 %."""
    idle_below: Share = by_default(1)
    """Utilization that is idle, in per cent."""
    warmup: Duration = by_default("60s")
    """Time to start in that does not count."""
    warn_before: SomeTime | None = by_default(None)
    """How long before it is asked to end its people are warned; else 10 minutes, or half of a shorter time."""
    grace: Duration = by_default("60s")
    """Time between asking and SIGKILL."""
    signal: Signal = by_default("TERM")
    """How it is asked."""
    dump_stacks: Flag = by_default(False)
    """Before asking, write its Python stacks to a file (needs py-spy)."""
    gpus: Gpus = by_default("all")
    """The cards it looks at."""
    users: Several[Text] = by_default(())
    """Only processes of these users; of everybody if none is named."""
    commands: Several[Text] = by_default(())
    """Only commands that fit one of these shell patterns; all if none is given."""

    def idle_rules(self, longest_gap_s: float) -> IdleRules | None:
        """What the policy against idle jobs goes by; None if the rule does not look for them."""
        if self.idle_for is None:
            return None
        return IdleRules(
            self.idle_for,
            self.warmup,
            self.grace,
            longest_gap_s,
            warn_before_s=self._notice_s(self.idle_for),
            signal=self.signal,
        )

    def stuck_rules(self, longest_gap_s: float) -> StuckRules | None:
        """What the policy against jobs that hang goes by; None if the rule does not look for them."""
        if self.stuck_for is None:
            return None
        return StuckRules(
            self.stuck_for,
            acts=self.act,
            grace_s=self.grace,
            longest_gap_s=longest_gap_s,
            warn_before_s=self._notice_s(self.stuck_for),
            signal=self.signal,
        )

    def _notice_s(self, timeout_s: float) -> float:
        return min(_LONGEST_NOTICE_S, timeout_s / 2) if self.warn_before is None else self.warn_before


class Protect(Section):
    """Whom nothing in this file ever stops, and how much may be stopped at most."""

    users: Several[Text] = by_default(())
    """Users whose processes are left alone."""
    commands: Several[Text] = by_default(())
    """Shell patterns, for the whole command line or for the name of any word of it: `jupyter*`."""
    at_most: Count = by_default(5)
    """So many jobs may be ended …"""
    per: SomeTime = by_default("10m")
    """… in so long a time; what would be more has to wait."""

    @property
    def protect_rules(self) -> ProtectRules:
        """The same as the arbiter knows it."""
        return ProtectRules(frozenset(self.users), self.commands)

    @property
    def limit(self) -> RateLimit:
        """The same as the arbiter knows it."""
        return RateLimit(self.at_most, self.per)


class Guard(Section):
    """Wait for work, then for its end, then act once. The words are those of `fallow guard`."""

    name: Name
    """What it is called on every face; no two guards have the same."""
    action: OneOrMore[Action]
    """What to do, in order: `run:CMD`, `notify:URL`, `shutdown`, `reboot`."""
    enabled: Flag = by_default(True)
    """Whether it guards at all."""
    dry_run: Flag = by_default(False)
    """Do everything but the deed, and say what it would be."""
    gpus: Gpus = by_default("all")
    """The cards it looks at."""
    arm_above: Share = by_default(10)
    """Utilization that is work, in per cent …"""
    arm_for: Duration = by_default("60s")
    """… and for how long, before it is armed."""
    idle_below: Share = by_default(5)
    """Utilization that is quiet, in per cent …"""
    idle_for: SomeTime = by_default("30m")
    """… and for how long, before it acts."""
    across: Across = by_default("all")
    """Which cards must be quiet: `all`, `any` of them, or their `mean`."""
    unless: Several[Condition] = by_default(())
    """Not while: `users`, `users:10m`, `cpu:P`, `net:RATE`, `process:NAME`."""
    countdown: Duration = by_default("60s")
    """Time in which people can prevent it."""
    user: Text | None = by_default(None)
    """Whom `run:` runs as. Needed for it where the daemon is root's; `"root"` if it shall be root."""

    def rules(self, longest_gap_s: float) -> GuardRules:
        """What the policy goes by."""
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
