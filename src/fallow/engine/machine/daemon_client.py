"""Asking the daemon through its socket, where there is one; whoever gets no answer goes on alone.

One line of JSON is asked, one or some are answered, and the connection ends. The daemon is believed only if it runs
as root, as ourselves, or as the owner of the folder that its socket is in. `pick` and `run` never ask it.
"""

import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from fallow.core.activity import Activity
from fallow.core.board import Counting, FillerView, GuardView
from fallow.core.errors import FallowError, NotPermitted, WrongUsage
from fallow.core.findings import Event
from fallow.core.gpu_status import Status
from fallow.core.interval import Card, Interval
from fallow.core.money import Prices
from fallow.core.ports import Clock
from fallow.core.protections import Protection, Target
from fallow.core.units import printable
from fallow.core.wire import VERSION, Garbled, unpacked
from fallow.engine.machine.socket_path import sockets_to_ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket

_SHORT_S = 2.0
_LONG_S = 30.0
_MOST_BYTES = 64 * 2**20
_CHUNK_BYTES = 256 * 1024
_CREDENTIALS = struct.Struct("3i")
_TIMEVAL = struct.Struct("ll")
_BUSY = "it is busy with others"


Ruled = Counting | GuardView | FillerView


class NoAnswer(Exception):
    """The daemon is not there, does not answer, or not to us."""


class DaemonClient:
    """The daemon of this machine. What it does not answer is None, and the reason is told to who wants to know."""

    def __init__(
        self,
        environ: Mapping[str, str],
        clock: Clock,
        simulated: str | None,
        tell: Callable[[str], None],
        places: Sequence[str] | None = None,
    ) -> None:
        """`places`: the sockets to look at, if not all that there may be."""
        self._places = sockets_to_ask(environ) if places is None else list(places)
        self._clock = clock
        self._simulated = simulated
        self._tell = tell
        self.trouble: str | None = None
        """Why a daemon that is there has not answered; None if it did, or there is none."""

    def status(self) -> Status | None:
        """What the daemon saw at its last tick, with the time that it has witnessed."""
        answer = self._asked("status")
        return answer if isinstance(answer, Status) else None

    def events(self, key: str | None, most: int) -> list[Event] | None:
        """The last events of its journal, newest first."""
        return _all_of(Event, self._asked("why", key=key, most=most))

    def rules_on(self, uuids: Sequence[str], process: str | None) -> list[Ruled] | None:
        """Which rules, guards and fillers of its have to do with these GPUs, or with that process."""
        answer = self._asked("rules", uuids=list(uuids), process=process)
        if not isinstance(answer, tuple):
            return None
        return [each for each in answer if isinstance(each, Counting | GuardView | FillerView)]

    def protections(self) -> list[Protection] | None:
        """The protections that it respects."""
        return _all_of(Protection, self._asked("protections"))

    def protect(self, target: Target, until_wall_s: float, why: str) -> Protection | None:
        """Place a protection in our name."""
        answer = self._asked("protect", target=str(target), until=until_wall_s, why=why)
        return answer if isinstance(answer, Protection) else None

    def release_protection(self, number: int) -> bool:
        """End a protection of ours, or as root any; False if the daemon does not answer."""
        return self._asked("release", id=number) is True

    def past(self) -> "RemoteHistory | None":
        """Its history; None if it keeps none or does not answer."""
        cards = _all_of(Card, self._asked("cards", _LONG_S))
        return RemoteHistory(self, cards) if cards else None

    def prices(self) -> Prices | None:
        """What cards cost, by the config that it runs with."""
        answer = self._asked("prices")
        return answer if isinstance(answer, Prices) else None

    def hello(self) -> dict[str, Any] | None:
        """What the daemon says of itself, whatever it speaks; None if there is none, NoAnswer if it is mute."""
        for line in self._lines("hello", _SHORT_S, {}):
            said = line.get("ok")
            if not isinstance(said, dict):
                raise NoAnswer("it does not say who it is")
            return said
        return None

    def reload(self) -> dict[str, Any] | None:
        """Have it load its config anew: what came of it; None if there is no daemon, NoAnswer if it is mute."""
        for line in self._lines("reload", _LONG_S, {}):
            refusal, said = line.get("no"), line.get("ok")
            if isinstance(refusal, dict):
                raise _refused(str(refusal.get("kind")), printable(str(refusal.get("why"))))
            if not isinstance(said, dict):
                raise NoAnswer("it does not say what came of it")
            return said
        return None

    def parts(self, ask: str, limit_s: float, **words: object) -> Iterator[object]:
        """The parts of an answer; NoAnswer where it does not come, or not all of it."""
        for line in self._lines(ask, limit_s, words):
            refusal = line.get("no")
            if isinstance(refusal, dict):
                raise _refused(str(refusal.get("kind")), printable(str(refusal.get("why"))))
            if line.get("v") != VERSION:
                raise NoAnswer("it speaks another version of fallow's language")
            try:
                yield unpacked(line.get("ok"))
            except Garbled as error:
                raise NoAnswer(f"its answer makes no sense: {error}") from None

    def _asked(self, ask: str, limit_s: float = _SHORT_S, **words: object) -> object:
        """The whole answer, its parts joined."""
        try:
            parts = list(self.parts(ask, limit_s, **words))
        except NoAnswer as error:
            self.trouble = str(error)
            self._tell(f"the daemon is left out: {error}")
            return None
        if not parts:
            return None  # there is none
        return (
            parts[0] if len(parts) == 1 else tuple(each for part in parts for each in cast("Sequence[object]", part))
        )

    def _lines(self, ask: str, limit_s: float, words: Mapping[str, object]) -> Iterator[dict[str, Any]]:
        request = {"v": VERSION, "ask": ask, "simulate": self._simulated, **words}
        until_s = self._clock.monotonic_s() + limit_s
        connection = self._connect(min(limit_s, _SHORT_S))
        if connection is None:
            return
        ended, begun = False, False
        try:
            connection.sendall(json.dumps(request).encode() + b"\n")
            for raw in self._received(connection, until_s):
                line = json.loads(raw)
                if not isinstance(line, dict):
                    raise NoAnswer("its answer makes no sense")
                begun = True
                yield line
                ended = not line.get("more")
            if not ended:
                raise NoAnswer("it broke off in the middle of its answer" if begun else _BUSY)
        except ConnectionError as error:
            raise NoAnswer(f"it broke off: {error}" if begun else _BUSY) from None
        except TimeoutError:
            raise NoAnswer(f"it did not answer within {limit_s:g} s") from None
        except (OSError, ValueError, RecursionError) as error:
            raise NoAnswer(f"it cannot be asked: {error}") from None
        finally:
            connection.close()

    def _received(self, connection: "socket", until_s: float) -> Iterator[bytes]:
        rest, total = b"", 0
        while True:
            connection.settimeout(max(0.001, until_s - self._clock.monotonic_s()))
            chunk = connection.recv(_CHUNK_BYTES)
            if not chunk:
                return
            total += len(chunk)
            if total > _MOST_BYTES:
                raise NoAnswer("its answer does not end")
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines

    def _connect(self, limit_s: float) -> "socket | None":
        """The first daemon that is there; None if there is none at all.

        Where many wait to be let in we wait with them: with a time limit of Python's the kernel would say no at once.
        """
        trouble: NoAnswer | None = None
        for path in self._places:
            if not os.path.exists(path):
                continue
            from socket import AF_UNIX, SO_PEERCRED, SO_SNDTIMEO, SOCK_STREAM, SOL_SOCKET, socket

            connection = socket(AF_UNIX, SOCK_STREAM)
            try:
                connection.setsockopt(SOL_SOCKET, SO_SNDTIMEO, _TIMEVAL.pack(*divmod(int(limit_s * 1e6), 10**6)))
                connection.connect(path)
                connection.settimeout(limit_s)
                _, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(SOL_SOCKET, SO_PEERCRED, _CREDENTIALS.size))
                if uid in (0, os.geteuid(), os.stat(os.path.dirname(path)).st_uid):
                    return connection
                trouble = NoAnswer(f"the daemon at {path} runs as user {uid}, which is neither root nor you")
            except BlockingIOError:
                trouble = NoAnswer(_BUSY)
            except OSError as error:
                dead = isinstance(error, ConnectionRefusedError)
                trouble = NoAnswer(f"nobody listens at {path} any more" if dead else f"{path}: {error}")
            with suppress(OSError):
                connection.close()
        if trouble is not None:
            raise trouble
        return None


class RemoteHistory:
    """The daemon's history, which need not be ours to read."""

    def __init__(self, daemon: DaemonClient, cards: Sequence[Card]) -> None:
        self._daemon = daemon
        self._cards = {card.uuid: card for card in cards}

    def cards(self) -> dict[str, Card]:
        """Every GPU that it knows, by UUID, in order."""
        return dict(self._cards)

    def tallies(self, edges_ms: Sequence[int]) -> list[Interval]:
        """All that was witnessed between each two edges."""
        told = self._told("tallies", edges=list(edges_ms))
        return [interval for interval in told if isinstance(interval, Interval)]

    def colours(self, uuid: str, since_ms: int, until_ms: int, finest_ms: int) -> list[tuple[int, int, Activity]]:
        """What one GPU did: from when, until when, and what; no finer than that."""
        told = self._told("colours", uuid=uuid, since=since_ms, until=until_ms, finest=finest_ms)
        return cast("list[tuple[int, int, Activity]]", told)

    def close(self) -> None:
        """Nothing is kept open."""

    def _told(self, ask: str, **words: object) -> list[object]:
        try:
            parts = list(self._daemon.parts(ask, _LONG_S, **words))
        except NoAnswer as error:
            raise FallowError(f"the daemon does not tell its history: {error}") from None
        return [each for part in parts if isinstance(part, tuple) for each in part]


def _all_of(kind: type[Any], answer: object) -> list[Any] | None:
    """The answer, if it is a list of these and of nothing else."""
    if not isinstance(answer, tuple) or not all(isinstance(each, kind) for each in answer):
        return None
    return list(answer)


def _refused(kind: str, why: str) -> Exception:
    match kind:
        case "usage":
            return WrongUsage(why)
        case "permission":
            return NotPermitted(why)
        case _:
            return NoAnswer(why)
