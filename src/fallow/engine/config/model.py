"""The whole config: its sections, and what each key of the smaller ones means."""

from collections.abc import Mapping
from typing import Annotated, Literal

from fallow.core.money import Prices
from fallow.core.notices import NOTICE_EVENTS, NoticeEvent
from fallow.engine.config.base import Section, by_default
from fallow.engine.config.fillers import Filler, Terminals
from fallow.engine.config.rules import Guard, Idle, Protect
from fallow.engine.config.types import (
    FROZEN,
    Count,
    Currency,
    Duration,
    Flag,
    Host,
    Listen,
    Money,
    Place,
    Several,
    SomeTime,
    Text,
    Tick,
    Url,
)
from fallow.policies.grouping import GroupingRules


class Machine(Section):
    """What holds for the machine as a whole."""

    every: Tick = by_default("1s")
    """How often to look."""
    price: Money | None = by_default(None)
    """What one card costs an hour; without it reports show hours and no money."""
    prices: Annotated[Mapping[Text, Money], FROZEN] = by_default({})
    """The same for cards that differ: by UUID, or by a part of their name such as `H100`."""
    currency: Currency = by_default("USD")
    """What prices are in."""
    show_commands: Literal["owner", "everyone"] = by_default("owner")
    """Who reads whole command lines: `owner`, which means their owner and root, or `everyone`."""

    @property
    def commands_shown(self) -> bool:
        """Whether everybody may read whole command lines."""
        return self.show_commands == "everyone"

    @property
    def all_prices(self) -> Prices:
        """What each card costs an hour: by its UUID, by the longest fitting part of its name, or as any other."""
        return Prices(self.price, tuple(self.prices.items()), self.currency)


class Notices(Section):
    """Whom to tell, of what, and how often."""

    urls: Several[Url] = by_default(())
    """Where to: the addresses of Apprise."""
    events: Several[NoticeEvent] = by_default(NOTICE_EVENTS)
    """What of: `idle`, `warned`, `stopped`, `stuck`, `card_lost`, `card_back`, `going_down`, `filler_given_up`."""
    group_for: Duration = by_default("10s")
    """What happens within so long goes out as one notice."""
    at_most: Count = by_default(20)
    """So many notices …"""
    per: SomeTime = by_default("1h")
    """… in so long a time; what would be more is counted, and told with the next."""

    @property
    def rules(self) -> GroupingRules:
        """What the policy on notices goes by."""
        return GroupingRules(frozenset(self.events), self.group_for, self.at_most, self.per)


class Page(Section):
    """The web page, its API and the metrics."""

    enabled: Flag = by_default(True)
    """Whether there is a page."""
    listen: Listen = by_default("127.0.0.1:8990")
    """Where. An address that other machines can reach needs a `token_file`."""
    token_file: Place | None = by_default(None)
    """A file that only its owner reads, with the token that a browser must know."""
    hosts: Several[Host] = by_default(())
    """Names by which the page may be asked for, beside `localhost` and the address."""


class History(Section):
    """What is kept for reports."""

    keep_for: SomeTime = by_default("90d")
    """For how long."""


class Config(Section):
    """fallow's config, as `fallow up` reads it and `fallow check` checks it."""

    machine: Machine = by_default({})
    """What holds for the machine as a whole."""
    filler: tuple[Filler, ...] = by_default(())
    """Work for cards that nobody uses; several."""
    idle: tuple[Idle, ...] = by_default(())
    """Rules for people's processes that hold cards without using them; several."""
    protect: Protect = by_default({})
    """Whom nothing ever stops."""
    guard: tuple[Guard, ...] = by_default(())
    """What to do when the work of the machine has ended; several."""
    terminals: Terminals = by_default({})
    """What people at terminals mean to fillers."""
    notices: Notices = by_default({})
    """Whom to tell."""
    page: Page = by_default({})
    """The web page, its API and the metrics."""
    history: History = by_default({})
    """What is kept for reports."""

    @property
    def fillers(self) -> tuple[Filler, ...]:
        """Those that run, the one that gets a card first at the front."""
        return tuple(sorted((one for one in self.filler if one.enabled), key=lambda one: -one.priority))

    @property
    def guards(self) -> tuple[Guard, ...]:
        """Those that guard."""
        return tuple(one for one in self.guard if one.enabled)


SECTIONS: Mapping[str, type[Section]] = {
    "machine": Machine,
    "filler": Filler,
    "idle": Idle,
    "protect": Protect,
    "guard": Guard,
    "terminals": Terminals,
    "notices": Notices,
    "page": Page,
    "history": History,
}
SEVERAL = frozenset({"filler", "idle", "guard"})
"""The sections that may be there more than once, written as `[[…]]`."""
