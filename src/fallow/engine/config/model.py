"""The whole config: its sections, and the keys of the smaller ones."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from fallow.core.money import Prices
from fallow.core.notices import NOTICE_EVENTS, NoticeEvent
from fallow.engine.config import types
from fallow.engine.config.base import Section, by_default
from fallow.engine.config.cluster import Cluster
from fallow.engine.config.fillers import Filler, Terminals
from fallow.engine.config.persons import Person
from fallow.engine.config.rules import Guard, Idle, Protect
from fallow.engine.notify.people import EVENTS, PeopleRules
from fallow.policies.grouping import GroupingRules


class Machine(Section):
    """Settings of the machine as a whole."""

    every: types.OwnTick = by_default("2s")
    """How often to read the GPUs, at most every 15 s."""
    price: types.Money | None = by_default(None)
    """What an hour of a GPU costs, as `2.50` or `"2.50/h"`; without it reports show hours and no money."""
    prices: Annotated[Mapping[types.Text, types.Money], types.FROZEN] = by_default({})
    """What an hour of some GPUs costs, by UUID or by a part of their name such as `H100`."""
    currency: types.Currency = by_default("USD")
    """The currency of the prices."""
    show_commands: Literal["owner", "everyone"] = by_default("owner")
    """Who may read whole command lines: their `owner` and root, or `everyone`."""
    operators: types.Text | None = by_default(None)
    """A group whose members may make the daemon reload, wake any parked job and release any protection."""

    @property
    def commands_shown(self) -> bool:
        """Return whether everybody may read whole command lines."""
        return self.show_commands == "everyone"

    @property
    def all_prices(self) -> Prices:
        """Return what an hour of each GPU costs: by its UUID, the longest fitting part of its name, or `price`."""
        return Prices(self.price, tuple(self.prices.items()), self.currency)


class NoticesToPeople(Section):
    """Whether and where people are told what happens to their own jobs."""

    template: types.Template | None = by_default(None)
    """The address of each person, as `"mailto://{user}@example.org"`; `{user}` and `{uid}` are replaced."""
    at_most: types.Count = by_default(10)
    """How many notices one person may get within the time of `per`; what is left over comes with the next."""
    per: types.SomeTime = by_default("1h")
    """The time to which `at_most` applies."""
    system_users: types.Flag = by_default(False)
    """Whether root and system users, below 1000, are told too."""


class Notices(Section):
    """Where notices go, about which events, and how many."""

    urls: types.Several[types.Url] = by_default(())
    """The addresses to send notices to, as Apprise writes them."""
    events: types.Several[NoticeEvent] = by_default(NOTICE_EVENTS)
    """Which events to send notices about; the default is all that there are."""
    group_for: types.Duration = by_default("10s")
    """The time in which events are collected into one notice."""
    at_most: types.Count = by_default(20)
    """How many notices may be sent within the time of `per`; what is left over comes with the next."""
    per: types.SomeTime = by_default("1h")
    """The time to which `at_most` applies."""
    people: NoticesToPeople = by_default({})
    """Whether and where people are told what happens to their own jobs."""

    @property
    def rules(self) -> GroupingRules:
        """Return the rules of the policy on notices."""
        return GroupingRules(frozenset(self.events), self.group_for, self.at_most, self.per)

    @property
    def people_rules(self) -> PeopleRules:
        """Return how people are told about their own jobs."""
        people = self.people
        grouping = GroupingRules(EVENTS, self.group_for, people.at_most, people.per)
        return PeopleRules(people.template, grouping, people.system_users)


class Page(Section):
    """The web page, its API and the metrics."""

    enabled: types.Flag = by_default(True)
    """Whether the page is served."""
    listen: types.Listen = by_default("127.0.0.1:8990")
    """The address and port to listen on. One that other machines can reach needs a `token_file`."""
    token_file: types.Place | None = by_default(None)
    """A file that only its owner can read, with a token that people share. With it nobody stops a job."""
    person: tuple[Person, ...] = by_default(())
    """People who have a token of their own, and act as their user; there may be several, at most 64."""
    hosts: types.Several[types.Host] = by_default(())
    """Host names that the page answers to, besides `localhost` and its address. With one it needs a `token_file`."""

    @property
    def has_token(self) -> bool:
        """Return whether somebody can log in."""
        return self.token_file is not None or bool(self.person)

    @property
    def needs_token(self) -> bool:
        """Return whether others than the users of this machine may reach it: by its address, or through a proxy."""
        return not self.listen.is_loopback or bool(self.hosts)


class History(Section):
    """How long history is kept for reports."""

    keep_for: types.SomeTime = by_default("90d")
    """How long history is kept."""


class Config(Section):
    """fallow's config, as `fallow up` reads it and `fallow check` checks it."""

    machine: Machine = by_default({})
    """Settings of the machine as a whole."""
    filler: tuple[Filler, ...] = by_default(())
    """Commands that run on idle GPUs; there may be several."""
    idle: tuple[Idle, ...] = by_default(())
    """Rules for processes that hold GPUs without using them; there may be several."""
    protect: Protect = by_default({})
    """Users and commands that are never stopped."""
    guard: tuple[Guard, ...] = by_default(())
    """What to do when all work has ended; there may be several."""
    terminals: Terminals = by_default({})
    """Whether fillers leave for people at terminals."""
    notices: Notices = by_default({})
    """Where notices go."""
    page: Page = by_default({})
    """The web page, its API and the metrics."""
    history: History = by_default({})
    """How long history is kept for reports."""
    cluster: Cluster = by_default({})
    """A cluster that this daemon looks at."""

    @property
    def fillers(self) -> tuple[Filler, ...]:
        """Return the enabled fillers, the one with the highest priority first."""
        enabled = (one for one in self.filler if one.enabled)
        return tuple(sorted(enabled, key=lambda one: -one.priority))

    @property
    def guards(self) -> tuple[Guard, ...]:
        """Return the enabled guards."""
        return tuple(one for one in self.guard if one.enabled)


_TYPES: dict[str, Any] = {name: field.annotation for name, field in Config.model_fields.items()}
SEVERAL = frozenset(name for name, kind in _TYPES.items() if get_origin(kind) is tuple)
"""Sections that may occur more than once, written as `[[…]]`."""
SECTIONS: Mapping[str, type[Section]] = {
    name: get_args(kind)[0] if name in SEVERAL else kind for name, kind in _TYPES.items()
}
