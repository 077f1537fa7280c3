"""`[[filler]]` and `[terminals]`: commands for idle GPUs, and the people they leave for, as in `fallow fill`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from fallow.core.fillers import Yield
from fallow.engine.config import types
from fallow.engine.config.base import Section, by_default
from fallow.readers.accounts import account, from_home

if TYPE_CHECKING:
    from fallow.engine.fill.filler import FillerSpec

Users = Literal["yield", "ignore"]


class Terminals(Section):
    """Whether fillers leave for people at terminals, unless a filler says otherwise."""

    users: Users = by_default("yield")
    """Whether fillers leave for people at terminals (`yield`) or stay (`ignore`)."""
    user_idle: types.UserIdle = by_default("5m")
    """How long after their last key people count as away; at least 10s."""
    ignore_user: types.Several[types.Text] = by_default(())
    """Users for whom fillers never leave."""


class Filler(Section):
    """A command that runs on GPUs that nobody uses, and leaves them at the first sign of anybody."""

    name: types.Name
    """The name that status, page and messages show; each filler needs its own."""
    command: types.Command
    """The program and its arguments, a list or one line; no shell runs it. `{gpu}` and `{uuid}` are replaced."""
    enabled: types.Flag = by_default(True)
    """Whether the filler runs at all."""
    priority: types.Priority = by_default(0)
    """Which filler gets a GPU that several want: the highest number, then the first in the file; from -100 to 100."""
    gpus: types.Gpus = by_default("all")
    """The GPUs that it may run on."""
    together: types.Flag = by_default(False)
    """Run one process on all its GPUs, once all of them are idle, instead of one on each."""
    idle_for: types.Duration = by_default("30s")
    """How long a GPU must be idle before the filler starts on it."""
    yields: Yield = by_default("term", alias="yield")
    """How it leaves: `term` (SIGTERM, then SIGKILL), `kill` (SIGKILL), `suspend` (its memory leaves the GPU too)."""
    grace: types.Duration = by_default("2s")
    """How long after SIGTERM it gets SIGKILL."""
    suspend_within: types.SomeTime = by_default("5s")
    """How long suspending may take before it is killed instead."""
    eager: types.Flag = by_default(False)
    """Leave as soon as any process opens the GPU's device file, before it is known whether it uses the GPU."""
    ignore: types.Several[types.Text] = by_default(())
    """Programs on the GPU for which it never leaves; monitors such as nvidia-smi are known already."""
    users: Users | None = by_default(None)
    """As in `[terminals]`, for this filler alone."""
    user_idle: types.UserIdle | None = by_default(None)
    """As in `[terminals]`, for this filler alone."""
    ignore_user: types.Several[types.Text] = by_default(())
    """More users for whom it never leaves."""
    between: types.Between | None = by_default(None)
    """The hours in which it may run, by the machine's clock; they may go past midnight."""
    log: types.HomePlace | None = by_default(None)
    """The file to which its output is appended. `{gpu}` and `{uuid}` are replaced."""
    cwd: types.HomePlace | None = by_default(None)
    """The folder that it runs in. `~` is the home of the user that it runs as."""
    user: types.Text | None = by_default(None)
    """The user that it runs as. A daemon of root needs it; write `"root"` to run it as root."""
    env: Annotated[Mapping[types.Variable, types.Setting], types.FROZEN] = by_default({})
    """Environment variables to set for it."""

    def people(self, terminals: Terminals) -> Terminals:
        """Return whether this filler leaves for people at terminals: its own keys before those of `[terminals]`."""
        return terminals.model_copy(
            update={
                "users": terminals.users if self.users is None else self.users,
                "user_idle": terminals.user_idle if self.user_idle is None else self.user_idle,
                "ignore_user": (*terminals.ignore_user, *self.ignore_user),
            }
        )

    def at_home(self, place: str | None) -> str | None:
        """Return a path with `~` replaced by the home of the user that it runs as."""
        found = None if self.user is None else account(self.user)
        if place is None or found is None or not (place == "~" or place.startswith("~/")):
            return None if place is None else from_home(place)
        return f"{found.home.rstrip('/')}{place[1:]}"

    def spec(self, terminals: Terminals, longest_gap_s: float) -> "FillerSpec":
        """Return the filler as the fill loop takes it."""
        from fallow.engine.fill.filler import FillerSpec
        from fallow.engine.machine.presence import PresenceRules
        from fallow.policies.fill import FillRules

        people = self.people(terminals)
        return FillerSpec(
            self.command,
            FillRules(self.idle_for, self.yields, self.grace, self.suspend_within, longest_gap_s),
            PresenceRules(people.users == "yield", people.user_idle, people.ignore_user, self.between),
            name=self.name,
            eager=self.eager,
            ignore=self.ignore,
            log=self.at_home(self.log),
            cwd=self.at_home(self.cwd),
            user=self.user,
            env=tuple(sorted(self.env.items())),
        )
