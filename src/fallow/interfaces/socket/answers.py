"""What the desk answers, and to whom.

    hello                      anybody, whatever they speak         the daemon itself
    status                     anybody, others' commands as names   the board
    why, rules, protections    anybody                              the journal, the board, the protections
    cards, tallies, colours    anybody                              history, for a report
    prices                     anybody                              what cards cost, by the config in force
    protect                    anybody                              placed as the user who asks, by the kernel's word
    release                    who placed it, or root               by the rights that the kernel gives them
    reload                     who runs the daemon, or root         loads the config anew, and says what came of it

Nothing else is possible. A daemon on simulated GPUs answers those who simulate the same, a real one those who do not.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

from fallow import __version__
from fallow.actuators.host.as_user import in_the_name_of
from fallow.core.board import Board
from fallow.core.errors import FallowError, NotPermitted, WrongUsage
from fallow.core.money import Prices
from fallow.core.protections import (
    OneProcess,
    Protection,
    Target,
    parse_target,
    reason_of,
)
from fallow.core.value import value
from fallow.core.visibility import ANYBODY, Viewer
from fallow.core.wire import VERSION, packed
from fallow.engine.daemon.sources import Sources
from fallow.engine.history.reader import HistoryReader
from fallow.engine.history.redacted_reader import RedactedHistory
from fallow.readers.proc import Proc, user_name
from fallow.readers.simulated_reader import machine

T = TypeVar("T")
Request = dict[str, object]
_TOO_OLD_S = 60.0
_MOST_EVENTS = 200
_MOST_GPUS = 1024
_MOST_EDGES = 4000
_EDGES_AT_ONCE = 8
_AT_ONCE = 1000
_LONGEST_TEXT = 1000
_FIRST_SURROGATE, _LAST_SURROGATE = "\ud800", "\udfff"
_LONGEST_PICTURE_MS = 32 * 86_400_000
_LONGEST_PROTECTION_S = 366 * 86400.0
_UNMAPPED = 65534  # what the kernel shows of a user who has no number here


@value
class Peer:
    """Who asks, as the kernel has it."""

    pid: int
    uid: int
    gid: int


class Refused(Exception):
    """A question that is not answered, and of which kind the reason is."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


class Answers:
    """Answers questions, each as one line or some."""

    def __init__(self, sources: Sources, readers: Executor) -> None:
        self._sources = sources
        self._readers = readers
        self._reading: dict[int, asyncio.Lock] = {}
        self._proc = Proc()
        self._status: tuple[Board, dict[Viewer, bytes]] | None = None

    async def to(self, peer: Peer, request: Request) -> AsyncGenerator[bytes, None]:
        """The lines of an answer; Refused or a FallowError where there is none."""
        ask = request.get("ask")
        if ask == "hello":
            yield _line(self._hello())
            return
        if ask == "reload":
            yield _line(await self._reload(peer))
            return
        self._demand_same_language(request)
        match ask:
            case "status":
                yield self._board_line(viewer_of(peer))
            case "why":
                key, most = _text(request, "key", optional=True), _number(request, "most", 1, _MOST_EVENTS)
                yield _line(await self._read(peer, lambda: packed(self._sources.events(key, most))))
            case "rules":
                yield _line(packed(self._rules(request)))
            case "prices":
                board = self._sources.board()
                yield _line(packed(Prices() if board is None else board.prices))
            case "protections":
                yield _line(packed(self._sources.protections.active(self._sources.clock.wall_s())))
            case "protect":
                yield _line(packed(self._protection(peer, request)))
            case "release":
                self._release(peer, _number(request, "id", 1, 2**53))
                yield _line(True)
            case "cards" | "tallies" | "colours":
                async for line in self._history(peer, ask, request):
                    yield line
            case _:
                raise Refused("version", f"the daemon (fallow {__version__}) does not know that question")

    def _demand_same_language(self, request: Request) -> None:
        if request.get("v") != VERSION:
            raise Refused("version", f"the daemon is fallow {__version__} and speaks {VERSION}, not what we do")
        ours, theirs = self._sources.simulated, request.get("simulate")
        if not _same_machine(ours, theirs):
            what = "real GPUs" if ours is None else f"simulated GPUs ({ours})"
            raise Refused("simulated", f"the daemon is on {what}, and others were asked for")

    async def _reload(self, peer: Peer) -> dict[str, object]:
        if peer.uid not in (0, os.geteuid()):
            raise NotPermitted(f"only root and {user_name(os.geteuid())}, who runs the daemon, may have it reload")
        came = await asyncio.wrap_future(self._sources.reload())
        rows = [[each.line, each.where, each.sentence, each.suggestion] for each in came.mistakes]
        return {"loaded": came.ok, "sentence": came.sentence, "file": came.file, "mistakes": rows}

    def _hello(self) -> dict[str, object]:
        board, now_s = self._sources.board(), self._sources.clock.wall_s()
        return {
            "fallow": __version__,
            "speaks": VERSION,
            "simulated": self._sources.simulated,
            "pid": os.getpid(),
            "user": user_name(os.geteuid()),
            "config": None if board is None else board.config,
            "dry_run": None if board is None else board.is_dry_run,
            "up_s": None if board is None else now_s - board.started_wall_s,
            "looked_s_ago": None if board is None else now_s - board.status.wall_s,
        }

    def _board_line(self, viewer: Viewer) -> bytes:
        """Made once for a tick and a viewer, however often they ask."""
        board = self._sources.board()
        if board is None:
            raise Refused("early", "the daemon has not looked yet")
        old_s = self._sources.clock.wall_s() - board.status.wall_s
        if old_s > _TOO_OLD_S:
            raise Refused("stale", f"the daemon has not looked for {old_s:.0f} s")
        if self._status is None or self._status[0] is not board:
            self._status = board, {}
        lines, viewer = self._status[1], board.rights_of(viewer)
        if viewer not in lines:
            lines[viewer] = _line(packed(board.as_seen_by(viewer)))
        return lines[viewer]

    def _rules(self, request: Request) -> list[object]:
        board, uuids, process = self._sources.board(), request.get("uuids"), _text(request, "process", optional=True)
        if not isinstance(uuids, list) or len(uuids) > _MOST_GPUS:
            raise WrongUsage(f"uuids is a list of at most {_MOST_GPUS} GPUs")
        if board is None:
            return []
        meant = {each for each in uuids if isinstance(each, str)}
        counting = (each for each in board.counting if process in each.processes or not meant.isdisjoint(each.uuids))
        guards = (each for each in board.guards if not meant.isdisjoint(each.uuids))
        fillers = (each for each in board.fillers if not meant.isdisjoint(each.uuids))
        return [*counting, *guards, *fillers]

    def _protection(self, peer: Peer, request: Request) -> Protection:
        target = parse_target(_text(request, "target") or "")
        self._demand_same_process(target)
        until, now_s = request.get("until"), self._sources.clock.wall_s()
        if not isinstance(until, int | float) or not now_s < until <= now_s + _LONGEST_PROTECTION_S:
            raise WrongUsage("a protection ends between now and a year from now")
        protections, why = self._sources.protections, _text(request, "why") or ""
        protections.demand_room(peer.uid, now_s)
        number = self._as(peer, lambda: protections.place(target, float(until), why))
        return Protection(number, target, float(until), reason_of(why), user_name(peer.uid))

    def _release(self, peer: Peer, number: int) -> None:
        self._as(peer, lambda: self._sources.protections.release(number))

    def _as(self, peer: Peer, action: Callable[[], T]) -> T:
        """In the name of who asks, so that the kernel says what they may; if we cannot, they can by themselves."""
        if peer.uid == _UNMAPPED or (os.geteuid() != 0 and peer.uid != os.geteuid()):
            raise Refused("alone", f"the daemon cannot act in the name of user {peer.uid}")
        with in_the_name_of(peer.uid, peer.gid):
            return action()

    def _demand_same_process(self, target: Target) -> None:
        """Pids mean something else in another pid namespace; a birth in ticks since boot does not."""
        if isinstance(target, OneProcess):
            stat = self._proc.stat(target.pid)
            if stat is None or stat.birth != target.birth:
                raise Refused("alone", f"the daemon does not see pid {target.pid} as the same process")

    async def _history(self, peer: Peer, ask: str, request: Request) -> AsyncGenerator[bytes, None]:
        board = self._sources.board()
        viewer = viewer_of(peer) if board is None else board.rights_of(viewer_of(peer))
        past = await self._read(peer, self._sources.past)
        if past is None:
            yield _line([])
            return
        try:
            if ask == "cards":
                yield _line(await self._read(peer, lambda: packed(list(past.cards().values()))))
                return
            for question in _colours(past, request) if ask == "colours" else _tallies(past, request, viewer):
                for part in await self._read(peer, lambda question=question: _parts(question())):  # type: ignore[misc]
                    yield part
            yield _line([])
        finally:
            past.close()

    async def _read(self, peer: Peer, question: Callable[[], T]) -> T:
        """In a thread, one question of each user at a time: whoever asks for much makes nobody wait but themselves.

        Who leaves before the answer waits for it all the same: what it reads from must not be closed under it.
        """
        async with self._reading.setdefault(peer.uid, asyncio.Lock()):
            answer = asyncio.get_running_loop().run_in_executor(self._readers, question)
            try:
                return await asyncio.shield(answer)
            except asyncio.CancelledError:
                await asyncio.wait([answer])
                raise


def viewer_of(peer: Peer) -> Viewer:
    """Whose words they may read. A user who has no number here could be anybody."""
    return ANYBODY if peer.uid == _UNMAPPED else Viewer(user_name(peer.uid), everything=peer.uid == 0)


def _tallies(past: HistoryReader, request: Request, viewer: Viewer) -> list[Callable[[], Sequence[object]]]:
    """Some days at a time, so that what is ready and not yet read stays small."""
    edges = request.get("edges")
    if not isinstance(edges, list) or not 2 <= len(edges) <= _MOST_EDGES:
        raise WrongUsage("a report has at least a beginning and an end")
    moments = [each for each in edges if type(each) is int and 0 <= each < 2**53]
    if len(moments) != len(edges) or moments != sorted(set(moments)):
        raise WrongUsage("the days of a report follow each other")
    shown, starts = RedactedHistory(past, viewer), range(0, len(moments) - 1, _EDGES_AT_ONCE)
    return [lambda at=at: shown.tallies(moments[at : at + _EDGES_AT_ONCE + 1]) for at in starts]  # type: ignore[misc]


def _colours(past: HistoryReader, request: Request) -> list[Callable[[], Sequence[object]]]:
    uuid = _text(request, "uuid") or ""
    since_ms, until_ms = _number(request, "since", 0, 2**53), _number(request, "until", 0, 2**53)
    if until_ms - since_ms > _LONGEST_PICTURE_MS:
        raise WrongUsage("a picture is of a month at most")
    finest_ms = _number(request, "finest", 0, 2**53)
    return [lambda: past.colours(uuid, since_ms, until_ms, finest_ms)]


def _parts(found: Sequence[object]) -> list[bytes]:
    starts = range(0, len(found), _AT_ONCE)
    return [_line(packed(found[at : at + _AT_ONCE]), more=True) for at in starts]


def _line(answer: object, *, more: bool = False) -> bytes:
    whole = {"v": VERSION, "ok": answer, "more": more}
    return json.dumps(whole, separators=(",", ":")).encode() + b"\n"


def _text(request: Request, name: str, *, optional: bool = False) -> str | None:
    text = request.get(name)
    if text is None and optional:
        return None
    if not isinstance(text, str) or len(text) > _LONGEST_TEXT:
        raise WrongUsage(f"{name} is a text of at most {_LONGEST_TEXT} letters")
    if any(_FIRST_SURROGATE <= letter <= _LAST_SURROGATE for letter in text):
        raise WrongUsage(f"{name} has a letter that is half of one")  # nobody could write it down or send it on
    return text


def _number(request: Request, name: str, least: int, most: int) -> int:
    number = request.get(name)
    if type(number) is not int or not least <= number <= most:
        raise WrongUsage(f"{name} is a whole number from {least} to {most}")
    return number


def _same_machine(ours: str | None, theirs: object) -> bool:
    if ours is None or not isinstance(theirs, str) or len(theirs) > _LONGEST_TEXT:
        return ours is None and theirs is None
    try:
        return machine(ours) == machine(theirs)
    except FallowError:
        return False
