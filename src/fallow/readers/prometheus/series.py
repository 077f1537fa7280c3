"""What one kind of exporter said of each GPU since the last look, and how far it can be believed.

What a GPU did is known only if its exporter was scraped all the time without a failure, each scrape had a number of
this GPU that can be true, and the last one is recent. Else it is Unknown.
"""

from collections.abc import Iterable, Mapping
from math import isfinite, isnan

from fallow.core.job import IDLE_BELOW
from fallow.core.units import is_number, printable
from fallow.core.unknown import NOT_ASKED, Unknown
from fallow.core.value import value
from fallow.readers.prometheus.answer import Labels, Vector
from fallow.readers.prometheus.vocabulary import TARGET, Load, Vocabulary

Key = tuple[str | None, ...]
Pod = tuple[str, str]
Figures = Mapping[str, Mapping[Key, float | Unknown] | Unknown]
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
    figures: Mapping[str, Vector | Unknown]
    hosts: Vector
    ages: Vector
    busy: Vector
    pods: Vector


@value
class Seen:
    """One GPU as one exporter shows it."""

    host: str
    uuid: str
    index: int | None
    parent: str
    """The UUID of the GPU that it is an instance of; empty if it is a whole GPU."""
    utilization: float | Unknown
    model: str
    pods: tuple[Pod, ...]
    """Several if they share it."""
    pod_uids: tuple[str, ...]
    key: Key
    figures: Figures
    """What else is known of all GPUs of this kind of exporter, by name and key."""

    def figure(self, name: str) -> float | Unknown:
        """Return something else about it."""
        found = self.figures.get(name, NOT_ASKED)
        return found if isinstance(found, Unknown) else found.get(self.key, NOT_ASKED)


def seen(words: Vocabulary, answers: Answers, window: Window) -> list[Seen]:
    """Return every GPU that is there, or was there since the last look; the time it takes is linear."""
    loads = [(load, _by(words.of, top), _by(words.of, count)) for load, top, count in answers.loads]
    figures = {
        name: found if isinstance(found, Unknown) else _figures(_by(words.of, found), words.figures[name].unit)
        for name, found in answers.figures.items()
    }
    busy = _by(words.of, answers.busy)
    uids = _uids(words, answers.pods)
    exporters = _Exporters(words, answers, window)
    last = _last(words, answers.listed)
    keys: dict[Key, None] = dict.fromkeys(last)
    for _, _, counts in loads:
        keys.update(dict.fromkeys(counts))
    made = []
    for key in keys:
        name = _named(words, key, exporters)
        if name is None:
            continue
        host, uuid, index, parent = name
        about = last.get(key, _ENDED)
        load: float | Unknown | None = exporters.doubt(key)
        load = about.doubt(window) if load is None else load
        if load is None:
            scrapes = exporters.scrapes.get(key[:2])
            load = _load(key, bool(parent), loads, scrapes, window)
        if words.busy_query and not isinstance(load, Unknown):
            load = _with_busy(load, busy.get(key, 0.0), window)
        made.append(Seen(host, uuid, index, parent, load, about.model, about.pods, uids.get(key, ()), key, figures))
    return made


class _Exporters:
    """What is known of the exporters themselves, by their labels."""

    def __init__(self, words: Vocabulary, answers: Answers, window: Window) -> None:
        self.scrapes = _by(TARGET, answers.scrapes)
        self._ages = _by(TARGET, answers.ages) if words.age_query else None
        self._oldest_s = max(_OLDEST_LOOK_S, window.interval_s)
        self._hosts: dict[Key, str] = {}
        for labels, _ in answers.hosts:
            key, host = _key(TARGET, labels), _name(labels.get("exported_host") or labels.get("host", ""))
            self._hosts[key] = "" if self._hosts.get(key, host) != host else host

    def host(self, key: Key) -> str:
        """Return the host that the exporter says it is on; empty if it does not say one."""
        return self._hosts.get(key[:2], "")

    def doubt(self, key: Key) -> Unknown | None:
        """Return why nothing can be known through this exporter."""
        if self._ages is None:
            return None
        age_s = self._ages.get(key[:2])
        if age_s is None or not isfinite(age_s):
            return Unknown("its exporter does not say when it last looked")
        if abs(age_s) > self._oldest_s:
            return Unknown(f"its exporter last looked {age_s:.0f} s before it was scraped")
        return None


class _Last:
    """When a GPU was last scraped, and what its labels say of it now."""

    def __init__(self, at_s: float | None, model: str = "", pods: tuple[Pod, ...] = ()) -> None:
        self.at_s, self.model, self.pods = at_s, model, pods

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
    for labels, at_s in listed:
        key = _key(words.of, labels)
        new = _Last(at_s, _name(labels.get(words.model, "")), _pod(words, labels))
        old = found.get(key)
        if old is not None:  # a GPU that pods share has a series for each: none of them has it alone
            new = _Last(_later(old, new), old.model or new.model, (*(old.pods or _NO_POD), *(new.pods or _NO_POD)))
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
    hosts = key[len(TARGET) : at]
    host = _name(next(filter(None, hosts), "")) if words.host else exporters.host(key)
    host = host or _name((key[1] or "").rpartition(":")[0])
    uuid, label = _name(key[at] or ""), key[at + 1] or ""
    index = int(label) if is_number(label) and int(label) < _MOST_INDEX else None
    instance = (key[at + 2] or "") if words.instance else ""
    if not host or not (uuid or label):
        return None
    whole = uuid or f"index {_name(label)}"
    return (host, f"{whole}/{_name(instance)}", None, whole) if instance else (host, whole, index, "")


def _load(
    key: Key,
    is_instance: bool,
    loads: Iterable[tuple[Load, Mapping[Key, float], Mapping[Key, float]]],
    scrapes: float | None,
    window: Window,
) -> float | Unknown:
    """Return the most that the GPU did by any metric; each that there is must be complete."""
    if scrapes is None or not isfinite(scrapes):
        return Unknown("a scrape of its exporter failed" if scrapes is not None else "Prometheus has no `up` for it")
    if scrapes < window.least_scrapes:
        return Unknown(f"its exporter was scraped {scrapes:.0f} times of at least {window.least_scrapes}")
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


def _figures(found: Mapping[Key, float], unit: float) -> dict[Key, float | Unknown]:
    return {key: number * unit if 0 <= number < _TOO_MUCH else _NOT_TRUE for key, number in found.items()}


def _by(names: tuple[str, ...], found: Vector) -> dict[Key, float]:
    """Return the values by some labels; two for the same are not a number."""
    made: dict[Key, float] = {}
    for labels, number in found:
        key = tuple(map(labels.get, names))
        made[key] = float("nan") if key in made else number
    return made


def _key(names: tuple[str, ...], labels: Labels) -> Key:
    return tuple(map(labels.get, names))


def _pod(words: Vocabulary, labels: Labels) -> tuple[Pod, ...]:
    for namespace, pod in words.pods:
        if labels.get(pod):
            return ((_name(labels.get(namespace, "")), _name(labels[pod])),)
    return ()


def _uids(words: Vocabulary, found: Vector) -> dict[Key, tuple[str, ...]]:
    """Return the UIDs of the pods whose processes hold each GPU."""
    made: dict[Key, dict[str, None]] = {}
    for labels, _ in found:
        made.setdefault(_key(words.of, labels), {})[_name(labels.get("owner"))] = None
    return {key: tuple(filter(None, uids)) for key, uids in made.items()}


def _name(text: str | None) -> str:
    return printable((text or "")[:_LONGEST_NAME])
