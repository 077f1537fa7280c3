"""What one kind of exporter said of each GPU since the last look, and how far it can be believed.

What a GPU did is known only if its exporter was scraped all the time without a failure, each scrape had a number of
this GPU that can be true, and the last one is recent. Else it is Unknown.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from math import isfinite, isnan
from typing import NamedTuple

from fallow.core.job import IDLE_BELOW
from fallow.core.units import is_number, printable
from fallow.core.unknown import NOT_ASKED, Unknown
from fallow.core.value import value
from fallow.readers.prometheus.answer import Key, Vector
from fallow.readers.prometheus.vocabulary import FIGURES, TARGET, FigureName, Load, Vocabulary

Pod = tuple[str, str]
_LONGEST_NAME = 253
_MOST_INDEX = 10_000
_OLDEST_LOOK_S = 30.0
_TOO_MUCH = 1e18
_NOT_TRUE = Unknown("it is not a number that can be true")


@value
class Window:
    """The time that a look covers."""

    at_s: float
    """Its end, by Prometheus' clock."""
    covers_s: float
    interval_s: float
    """The longest time between two scrapes."""

    @property
    def least_scrapes(self) -> int:
        """Return how many scrapes there are in it, if none was left out."""
        return max(1, int((self.covers_s - self.interval_s / 2) / self.interval_s))


@value
class Answers:
    """The answers to all queries in one vocabulary."""

    listed: Vector
    scrapes: Vector
    loads: tuple[tuple[Load, Vector, Vector], ...]
    """Each with the highest value and the count of each GPU."""
    figures: Mapping[FigureName, Vector | Unknown]
    hosts: Vector
    ages: Vector
    busy: Vector
    pods: Vector


class Seen(NamedTuple):  # made for each GPU at each look, which a tuple does fastest
    """One GPU as one exporter shows it."""

    host: str
    uuid: str
    number: int | None
    """Its index in its host."""
    parent: str
    """The UUID of the GPU that it is an instance of; empty if it is a whole GPU."""
    utilization: float | Unknown
    of_moments: bool
    """Whether that is of moments, between which it may have done more."""
    pods: tuple[Pod, ...]
    """Several if they share it."""
    pod_uids: tuple[str, ...]
    figures: tuple[float | Unknown, ...]
    """What else is known of it, in the order of `FIGURES`."""


def seen(words: Vocabulary, answers: Answers, window: Window) -> list[Seen]:
    """Return every GPU that is there, or was there since the last look; the time it takes is linear."""
    figures = [_figures(answers.figures.get(name, NOT_ASKED), words, name) for name in FIGURES]
    uids = _uids(answers.pods)
    exporters = _Exporters(words, answers, window)
    last = _last(words, answers.listed)
    made = []
    # Keys of loads first: the figures have the same ones, which are found faster than others that are equal.
    for key in dict.fromkeys(chain(*(counts for _, _, counts in answers.loads), last)):
        name = _named(words, key, exporters)
        if name is None:
            continue
        host, uuid, index, parent = name
        about = last.get(key, _ENDED)
        load: float | Unknown | None = about.doubt(window)
        if load is None:
            load = _load(key, bool(parent), answers.loads, exporters.scrapes(key))
        if words.busy_query and not isinstance(load, Unknown):
            load = _with_busy(load, answers.busy.get(key, 0.0), window)
        others = tuple([known.get(key, missing) for known, missing in figures])
        of_moments = all(load.of_moments for load, _, counts in answers.loads if key in counts)
        made.append(Seen(host, uuid, index, parent, load, of_moments, about.pods, uids.get(key, ()), others))
    return made


class _Exporters:
    """What is known of the exporters themselves, by their labels."""

    def __init__(self, words: Vocabulary, answers: Answers, window: Window) -> None:
        self._scrapes = answers.scrapes
        self._ages = answers.ages if words.age_query else None
        self._oldest_s = max(_OLDEST_LOOK_S, window.interval_s)
        self._least = window.least_scrapes
        self._judged: dict[Key, float | Unknown] = {}
        self._hosts: dict[Key, str] = {}
        for labels in answers.hosts:
            key, host = labels[: len(TARGET)], _name(next(filter(None, labels[len(TARGET) :]), ""))
            self._hosts[key] = "" if self._hosts.get(key, host) != host else host

    def host(self, key: Key) -> str:
        """Return the host that the exporter says it is on; empty if it does not say one."""
        return self._hosts.get(key[: len(TARGET)], "")

    def scrapes(self, key: Key) -> float | Unknown:
        """Return how often the exporter was scraped, or why nothing can be known through it."""
        exporter = key[: len(TARGET)]
        found = self._judged.get(exporter)
        if found is None:
            found = self._judged[exporter] = self._judge(exporter)
        return found

    def _judge(self, exporter: Key) -> float | Unknown:
        if self._ages is not None:
            age_s = self._ages.get(exporter)
            if age_s is None or not isfinite(age_s):
                return Unknown("its exporter does not say when it last looked")
            if abs(age_s) > self._oldest_s:
                return Unknown(f"its exporter last looked {age_s:.0f} s before it was scraped")
        scrapes = self._scrapes.get(exporter)
        if scrapes is None:
            return Unknown("Prometheus has no `up` for it")
        if not isfinite(scrapes):
            return Unknown("a scrape of its exporter failed")
        if scrapes < self._least:
            return Unknown(f"its exporter was scraped {scrapes:.0f} times of at least {self._least}")
        return scrapes


class _Last:
    """When a GPU was last scraped, and what its labels say of it now."""

    def __init__(self, at_s: float | None, pods: tuple[Pod, ...] = ()) -> None:
        self.at_s, self.pods = at_s, pods

    def doubt(self, window: Window) -> Unknown | None:
        """Return why it is not known what the GPU does now."""
        if self.at_s is None:
            return Unknown("its series has ended")
        if not isfinite(self.at_s):
            return Unknown("there are two series for it")
        if not -1.0 <= window.at_s - self.at_s <= 1.5 * window.interval_s:
            return Unknown(f"it was last scraped {window.at_s - self.at_s:.0f} s ago")
        return None


_ENDED = _Last(None)
_NO_POD: tuple[Pod, ...] = (("", ""),)


def _last(words: Vocabulary, listed: Vector) -> dict[Key, _Last]:
    found: dict[Key, _Last] = {}
    of = len(words.of)
    for labels, at_s in listed.items():
        key = labels[:of]
        new = _Last(at_s, _pod(labels[of:]))
        old = found.get(key)
        if old is not None:  # a GPU that pods share has a series for each: none of them has it alone
            new = _Last(_later(old, new), (*(old.pods or _NO_POD), *(new.pods or _NO_POD)))
        found[key] = new
    return found


def _later(one: _Last, other: _Last) -> float:
    """Return when the later of two series of a GPU was scraped; infinite if nothing but lies tells them apart."""
    times = [each for each in (one.at_s, other.at_s) if each is not None and isfinite(each)]
    of_others = one.pods != other.pods and set(one.pods).isdisjoint(other.pods)
    return max(times) if len(times) == 2 and of_others else float("inf")


def _named(words: Vocabulary, key: Key, exporters: _Exporters) -> tuple[str, str, int | None, str] | None:
    """Return host, UUID, index and, of an instance, the UUID of its GPU; None if the labels do not say it."""
    at = len(TARGET) + len(words.host)
    host = _name(next(filter(None, key[len(TARGET) : at]), "")) if words.host else exporters.host(key)
    host = host or _name(key[1].rpartition(":")[0])
    uuid, label = _name(key[at]), key[at + 1]
    if not host or not (uuid or label):
        return None
    whole = uuid or f"index {_name(label)}"
    if words.instance and key[at + 2]:
        return host, f"{whole}/{_name(key[at + 2])}", None, whole
    index = int(label) if is_number(label) else _MOST_INDEX
    return host, whole, index if index < _MOST_INDEX else None, ""


def _load(
    key: Key,
    is_instance: bool,
    loads: Iterable[tuple[Load, Vector, Vector]],
    scrapes: float | Unknown,
) -> float | Unknown:
    """Return the most that the GPU did by any metric; each that there is must be complete."""
    if isinstance(scrapes, Unknown):
        return scrapes
    most: float | None = None
    for load, highest, counts in loads:
        count = counts.get(key)
        if count is None or (is_instance and not load.of_instances):
            continue
        top = highest.get(key)
        if isnan(count) or top is None or isnan(top):
            return Unknown(f"{load.metric} is not a number")
        if not isfinite(count) or not 0 <= top <= load.whole:
            return Unknown(f"{load.metric} is out of its range")
        if count < scrapes:
            return Unknown(f"{load.metric} was missing in {scrapes - count:.0f} of {scrapes:.0f} scrapes")
        most = top / load.whole if most is None else max(most, top / load.whole)
    return Unknown("there is no metric of its load") if most is None else most


def _with_busy(load: float, busy_s: float, window: Window) -> float | Unknown:
    """Return the load, at least what its own exporter saw between two scrapes."""
    if not isfinite(busy_s) or busy_s < 0:
        return Unknown("the seconds that it was busy are not a number")
    return max(load, IDLE_BELOW, min(1.0, busy_s / window.covers_s)) if busy_s > 0 else load


def _figures(
    found: Vector | Unknown, words: Vocabulary, name: FigureName
) -> tuple[Mapping[Key, float | Unknown], Unknown]:
    """Return one figure of each GPU, and what it is of the others."""
    if isinstance(found, Unknown):
        return {}, found
    unit = words.figures[name].unit
    known = {key: number * unit if 0 <= number < _TOO_MUCH else _NOT_TRUE for key, number in found.items()}
    return known, NOT_ASKED


def _pod(labels: Key) -> tuple[Pod, ...]:
    """Return the first pair of namespace and pod that is there."""
    for at in range(0, len(labels), 2):
        if labels[at + 1]:
            return ((_name(labels[at]), _name(labels[at + 1])),)
    return ()


def _uids(found: Vector) -> dict[Key, tuple[str, ...]]:
    """Return the UIDs of the pods whose processes hold each GPU."""
    made: dict[Key, dict[str, None]] = {}
    for labels in found:
        made.setdefault(labels[:-1], {})[_name(labels[-1])] = None
    return {key: tuple(filter(None, uids)) for key, uids in made.items()}


def _name(text: str) -> str:
    return printable(text[:_LONGEST_NAME])
