"""Ask the daemon of this machine through its API, over its unix socket; without an answer a command works alone."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from fallow.core.activity import Activity
from fallow.core.api import MACHINE_HEADER, REAL_MACHINE, VERSION
from fallow.core.board import Counting, FillerView, GuardView
from fallow.core.errors import FallowError, NotPermitted, WrongUsage
from fallow.core.findings import Event
from fallow.core.gpu_status import Status
from fallow.core.interval import Card, Interval
from fallow.core.money import Prices
from fallow.core.parked import ParkedJob
from fallow.core.ports import Clock
from fallow.core.protections import ProtectedForGood, Protection, Target
from fallow.core.units import patience_s, printable
from fallow.core.value import value
from fallow.engine.client import from_json
from fallow.engine.client.socket_path import sockets_to_ask
from fallow.engine.client.unix_http import Answer, NoAnswer, ask

_SHORT_S = 2.0
_LONG_S = 30.0
_TOO_OLD_S = 60.0
_EDGES_AT_ONCE = 32
_MONTH_MS = 31 * 86_400_000
_MOST_STEPS = 1000
_OK = range(200, 300)
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~:@,")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.core.cluster_view import ClusterView

T = TypeVar("T")
Facts = dict[str, Any]
Ruled = Counting | GuardView | FillerView


@value
class RecentStep:
    """What a GPU did for some seconds."""

    begin_wall_s: float
    lasts_s: float
    load: float | None
    """The mean of its utilization; None if it was not known."""
    activity: Activity


class DaemonClient:
    """A client of the daemon of this machine. What it does not answer is None; `tell` gets the reason."""

    def __init__(
        self,
        environ: Mapping[str, str],
        clock: Clock,
        simulated: str | None,
        tell: Callable[[str], None],
        places: Sequence[str] | None = None,
    ) -> None:
        """`places`: the sockets to try, instead of all that there may be."""
        self._places = sockets_to_ask(environ) if places is None else list(places)
        self._limit_s = patience_s(environ, "FALLOW_DAEMON_TIMEOUT", _SHORT_S, "the daemon")
        self._clock = clock
        self._headers = {MACHINE_HEADER: REAL_MACHINE if simulated is None else _quoted(simulated)}
        self._tell = tell
        self.trouble: str | None = None
        """Why a daemon that is there has not answered; None if it did, or there is none."""

    def status(self) -> Status | None:
        """Return what the daemon saw at its last tick, with the time that it has witnessed."""
        found = self._get("/status", from_json.status)
        old_s = 0.0 if found is None else self._clock.wall_s() - found.wall_s
        if old_s > _TOO_OLD_S:
            self._leave_out(f"it has not looked for {old_s:.0f} s")
            return None
        return found

    def events(self, key: str | None, most: int) -> list[Event] | None:
        """Return the last events of its journal, newest first."""
        query = _query(limit=most) if key is None else _query(key=key, limit=most)
        return self._get(f"/events{query}", _each(from_json.event, "events"))

    def counting(self) -> list[Counting] | None:
        """Return what its idle rules count of all jobs."""
        return self._get("/rules", _each(from_json.counting, "rules"))

    def rules_on(self, uuids: Sequence[str], process: str | None) -> list[Ruled] | None:
        """Return the daemon's rules, guards and fillers on these GPUs or that process."""
        counting = self.counting()
        guards = self._get("/guards", _each(partial(from_json.value, GuardView), "guards"))
        fillers = self._get("/fillers", _each(partial(from_json.value, FillerView), "fillers"))
        if counting is None or guards is None or fillers is None:
            return None
        meant = set(uuids)
        ruled: list[Ruled] = [each for each in counting if process in each.processes]
        others: tuple[Ruled, ...] = (*(each for each in counting if process not in each.processes), *guards, *fillers)
        return ruled + [each for each in others if not meant.isdisjoint(each.uuids)]

    def protections(self) -> list[Protection] | None:
        """Return the protections that it respects."""
        return self._get("/protections", _each(from_json.protection, "protections"))

    def protect(self, target: Target, for_s: float, why: str) -> Protection | None:
        """Place a protection in the name of the user who asks."""
        body = {"subject": str(target), "for_s": for_s, "why": why}
        return self._or_nothing(lambda: self.values(from_json.protection, "POST", "/protections", body))

    def release_protection(self, number: int) -> bool:
        """End a protection of the user who asks, or as root any; False if the daemon does not answer."""
        return self._or_nothing(lambda: self.values(lambda _: True, "DELETE", f"/protections/{number}")) is True

    def parked(self) -> list[ParkedJob] | None:
        """Return the jobs that are parked now, or on their way."""
        return self._get("/parked", _each(from_json.parked, "parked"))

    def wake(self, subject: str) -> list[tuple[ParkedJob, str | None]] | None:
        """Begin to wake jobs in the name of the user who asks; return each with why it cannot be woken, or None."""

        def build(facts: Facts) -> list[tuple[ParkedJob, str | None]]:
            return [(from_json.parked(each), each["refused"]) for each in facts["jobs"]]

        return self._or_nothing(lambda: self.values(build, "POST", "/wake", {"subject": subject}))

    def cluster(self, subject: str | None = None, most: int | None = None) -> "ClusterView | None":
        """Return the cluster as the daemon saw it last, or the jobs that are meant; None where it watches none."""
        words = {"subject": subject, "limit": most}
        query = _query(**{name: word for name, word in words.items() if word is not None})
        return self._get(f"/cluster{query}" if len(query) > 1 else "/cluster", from_json.cluster, _LONG_S)

    def recent(self) -> "dict[str, list[RecentStep]] | None":
        """Return what each GPU did in the last minutes, by its label; None if it does not tell."""
        return self._get("/recent", _recent)

    def past(self) -> "RemoteHistory | None":
        """Return its history; None if it keeps none or does not answer."""
        cards = self._get("/history/gpus", _each(partial(from_json.value, Card), "gpus"), _LONG_S)
        return RemoteHistory(self, cards) if cards else None

    def prices(self, *, patiently: bool = False) -> Prices | None:
        """Return what GPUs cost, by the config that it runs with."""
        return self._get("/prices", lambda facts: from_json.value(Prices, facts), _LONG_S if patiently else None)

    def protected_for_good(self) -> ProtectedForGood | None:
        """Return what `[protect]` of the config names that it runs with."""
        return self._get("/protected", from_json.protected_for_good)

    def hello(self) -> Facts | None:
        """Return what the daemon reports about itself, also one of another version; None if there is none."""
        answer = ask(self._places, self._clock, "GET", "/api/v1/daemon", {}, limit_s=self._limit_s)
        if answer is None:
            return None
        if answer[0] not in _OK:
            raise NoAnswer("it does not say who it is")
        return answer[1]

    def reload(self) -> Facts | None:
        """Make it load its config again, whatever its GPUs; return the outcome, None if there is no daemon."""
        return _checked(ask(self._places, self._clock, "POST", "/api/v1/reload", {}, limit_s=_LONG_S))

    def values(
        self,
        build: Callable[[Facts], T],
        method: str,
        target: str,
        body: Mapping[str, object] | None = None,
        limit_s: float | None = None,
    ) -> T | None:
        """Return an answer of the API as values; None if there is no daemon. Raise NoAnswer if it gives none."""
        within_s = self._limit_s if limit_s is None else max(limit_s, self._limit_s)
        facts = _checked(ask(self._places, self._clock, method, f"/api/v1{target}", self._headers, body, within_s))
        if facts is None:
            return None
        try:
            return build(facts)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError, WrongUsage) as error:
            raise NoAnswer(f"its answer makes no sense: {type(error).__name__}: {error}") from None

    def _get(self, target: str, build: Callable[[Facts], T], limit_s: float | None = None) -> T | None:
        return self._or_nothing(lambda: self.values(build, "GET", target, limit_s=limit_s))

    def _or_nothing(self, question: Callable[[], T | None]) -> T | None:
        try:
            return question()
        except NoAnswer as error:
            self._leave_out(str(error))
            return None

    def _leave_out(self, why: str) -> None:
        self.trouble = why
        self._tell(f"the daemon is left out: {why}")


class RemoteHistory:
    """Reads the daemon's history through its API, also if our user may not read the file."""

    def __init__(self, daemon: DaemonClient, cards: Iterable[Card]) -> None:
        self._daemon = daemon
        self._cards = {card.uuid: card for card in cards}

    def cards(self) -> dict[str, Card]:
        """Return every known GPU, by UUID, in order."""
        return dict(self._cards)

    def tallies(self, edges_ms: Sequence[int]) -> list[Interval]:
        """Return all that was witnessed between each two edges; some days at a time, so that answers stay small."""
        found: list[Interval] = []
        for at in range(0, len(edges_ms) - 1, _EDGES_AT_ONCE):
            edges = ",".join(str(edge) for edge in edges_ms[at : at + _EDGES_AT_ONCE + 1])
            found += self._asked(f"/history/tallies?edges={edges}", _each(from_json.interval, "tallies"))
        return found

    def quarters(self, since_ms: int, until_ms: int) -> list[tuple[int, Activity, int]]:
        """Return how long all GPUs together did what in each quarter of an hour; a month at a time."""
        found: list[tuple[int, Activity, int]] = []
        for begin_ms in range(since_ms, until_ms, _MONTH_MS):
            query = _query(since_ms=begin_ms, until_ms=min(until_ms, begin_ms + _MONTH_MS))
            found += self._asked(f"/history/quarters{query}", _quarters)
        return found

    def colours(self, uuid: str, since_ms: int, until_ms: int, finest_ms: int) -> list[tuple[int, int, Activity]]:
        """Return what one GPU did: from when, until when, and what; no finer than `finest_ms`."""
        query = _query(gpu=uuid, since_ms=since_ms, until_ms=until_ms, finest_ms=finest_ms)
        return self._asked(f"/history/activities{query}", _stretches)

    def close(self) -> None:
        """Do nothing: nothing is kept open."""

    def _asked(self, target: str, build: Callable[[Facts], list[T]]) -> list[T]:
        try:
            found = self._daemon.values(build, "GET", target, limit_s=_LONG_S)
        except NoAnswer as error:
            raise FallowError(f"the daemon does not tell its history: {error}") from None
        if found is None:
            raise FallowError("the daemon does not tell its history: it has ended")
        return found


def _each(build: Callable[[Facts], T], name: str) -> Callable[[Facts], list[T]]:
    """Return what builds a value of each member of a list in an answer."""
    return lambda facts: [build(each) for each in facts[name]]


def _checked(answer: Answer | None) -> Facts | None:
    """Return the facts of an answer; raise what a refusal, or another version, means."""
    if answer is None:
        return None
    code, facts = answer
    if code == 204:
        return {}
    version = facts.get("version")
    if version != VERSION:
        raise NoAnswer(f"it speaks version {printable(str(version))} of the API, this fallow speaks {VERSION}")
    if code not in _OK:
        raise _refused(facts.get("reason"), printable(str(facts.get("detail"))))
    return facts


def _stretches(facts: Facts) -> list[tuple[int, int, Activity]]:
    return [(begin_ms, end_ms, Activity(what)) for begin_ms, end_ms, what in facts["activities"]]


def _quarters(facts: Facts) -> list[tuple[int, Activity, int]]:
    return [(begin_ms, Activity(what), ms) for begin_ms, what, ms in facts["quarters"]]


def _recent(facts: Facts) -> dict[str, list[RecentStep]]:
    lasts_s = float(facts["step_s"])
    return {
        str(gpu["gpu"]): [
            RecentStep(float(at), lasts_s, None if load is None else float(load), Activity(does))
            for at, load, does in gpu["steps"][-_MOST_STEPS:]
        ]
        for gpu in facts["gpus"]
    }


def _query(**words: str | int) -> str:
    return "?" + "&".join(f"{name}={_quoted(str(word))}" for name, word in words.items())


def _quoted(word: str) -> str:
    """Return the word escaped for an address or a header, without urllib, which takes long to load."""
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in word.encode(errors="replace"))


def _refused(kind: object, why: str) -> Exception:
    match kind:
        case "usage":
            return WrongUsage(why)
        case "permission":
            return NotPermitted(why)
        case _:
            return NoAnswer(why)
