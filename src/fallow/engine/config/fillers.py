"""`[[filler]]` and `[terminals]`: work that yields, and the people it yields to, in the words of `fallow fill`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from fallow.core.fillers import Yield
from fallow.engine.config.base import Section, by_default
from fallow.engine.config.types import (
    FROZEN,
    Between,
    Celsius,
    Command,
    Duration,
    Flag,
    Gpus,
    HomePlace,
    Name,
    Priority,
    Setting,
    Several,
    SomeTime,
    Text,
    UserIdle,
    Variable,
)
from fallow.readers.accounts import account, from_home

if TYPE_CHECKING:
    from fallow.engine.fill.start import FillerSpec

Users = Literal["yield", "ignore"]


class Terminals(Section):
    """What people at terminals mean to fillers, unless a filler says otherwise."""

    users: Users = by_default("yield")
    """Whether fillers yield to people at terminals, or ignore them."""
    user_idle: UserIdle = by_default("5m")
    """Somebody who has touched nothing for so long counts as away."""
    ignore_user: Several[Text] = by_default(())
    """Users whose terminals never count."""


class Filler(Section):
    """A command that runs on cards nobody uses, and gives them back at the first sign of anyone."""

    name: Name
    """What it is called on every face; no two fillers have the same."""
    command: Command
    """A list of words, or a line that is split into words; no shell runs it. `{gpu}` and `{uuid}` are replaced."""
    enabled: Flag = by_default(True)
    """Whether it runs at all."""
    priority: Priority = by_default(0)
    """The higher one gets the card; of equal ones the first in the file. From -100 to 100."""
    gpus: Gpus = by_default("all")
    """The cards it may have."""
    together: Flag = by_default(False)
    """One process over all its cards, once all of them are idle; without it one process on each."""
    idle_for: Duration = by_default("30s")
    """For how long nobody must have held or used a card before it is let in."""
    yields: Yield = by_default("term", alias="yield")
    """How it gives a card back: asked and then killed, killed at once, or suspended with its memory saved."""
    grace: Duration = by_default("2s")
    """Time between asking and SIGKILL."""
    suspend_within: SomeTime = by_default("5s")
    """How long suspending may take; a filler that needs longer is killed."""
    eager: Flag = by_default(False)
    """Yield to whoever opens the card's device, before it is known to be more than a look."""
    ignore: Several[Text] = by_default(())
    """Names of programs that never make it yield; monitors are known already."""
    users: Users | None = by_default(None)
    """As in `[terminals]`, for this filler alone."""
    user_idle: UserIdle | None = by_default(None)
    """As in `[terminals]`, for this filler alone."""
    ignore_user: Several[Text] = by_default(())
    """More users whose terminals never count."""
    between: Between | None = by_default(None)
    """Only in these hours, by the machine's clock; past midnight too."""
    max_temp: Celsius | None = by_default(None)
    """Not on a card that is hotter, in degrees Celsius, from 30 to 120."""
    log: HomePlace | None = by_default(None)
    """The file that its output is appended to. `{gpu}` and `{uuid}` are replaced."""
    cwd: HomePlace | None = by_default(None)
    """The folder that it runs in. `~` is the home of whom it runs as."""
    user: Text | None = by_default(None)
    """Whom it runs as. Needed where the daemon is root's; `"root"` if it shall be root."""
    env: Annotated[Mapping[Variable, Setting], FROZEN] = by_default({})
    """Variables of its environment, beside those of fallow."""

    def people(self, terminals: Terminals) -> Terminals:
        """What people at terminals mean to this filler: its own words before those for all."""
        return terminals.model_copy(
            update={
                "users": terminals.users if self.users is None else self.users,
                "user_idle": terminals.user_idle if self.user_idle is None else self.user_idle,
                "ignore_user": (*terminals.ignore_user, *self.ignore_user),
            }
        )

    def at_home(self, place: str | None) -> str | None:
        """A path with `~` replaced by the home of whom it runs as."""
        found = None if self.user is None else account(self.user)
        if place is None or found is None or not (place == "~" or place.startswith("~/")):
            return None if place is None else from_home(place)
        return f"{found.home.rstrip('/')}{place[1:]}"

    def spec(self, terminals: Terminals, longest_gap_s: float) -> "FillerSpec":
        """The same as those who run fillers know it."""
        from fallow.engine.fill.start import FillerSpec
        from fallow.engine.machine.presence import PresenceRules
        from fallow.policies.fill import FillRules

        people = self.people(terminals)
        return FillerSpec(
            self.command,
            FillRules(self.idle_for, self.yields, self.grace, self.suspend_within, longest_gap_s),
            PresenceRules(people.users == "yield", people.user_idle, people.ignore_user, self.between),
            name=self.name,
            together=self.together,
            eager=self.eager,
            ignore=self.ignore,
            max_temp_c=self.max_temp,
            log=self.at_home(self.log),
            cwd=self.at_home(self.cwd),
            user=self.user,
            env=tuple(sorted(self.env.items())),
        )
