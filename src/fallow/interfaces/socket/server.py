"""The desk: the daemon's unix socket, where everybody on the machine may ask and nobody can hurt.

One line of JSON is asked, one or some are answered, and the connection ends. Each connection has a time for its
question, one for its answer, and a length for both; each user has a few connections at once and some questions a
second. Where all places are taken, who has most gives one up: whoever floods the desk waits alone. Who asks is what
the kernel says, never what the request does.
"""

import asyncio
import errno
import json
import socket
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial

from fallow.actuators.host.unix_socket import SocketFile
from fallow.core.errors import (
    SHORTAGES,
    FallowError,
    NotPermitted,
    WrongUsage,
)
from fallow.core.value import value
from fallow.core.wire import VERSION
from fallow.engine.daemon.sources import Sources
from fallow.interfaces.socket.answers import Answers, Peer, Refused

_CREDENTIALS = struct.Struct("3i")
_LONGEST_LINE = 64 * 1024
_READERS = 2
_QUEUE = 1024
_ACCEPTED_AT_ONCE = 64
_SHUT_FOR_S = 1.0


@value
class Limits:
    """What one who asks may take from the others."""

    connections: int = 64
    connections_of_user: int = 16
    look_again_s: float = 5.0
    """How often to see whether the socket is still there."""
    asks_per_s: int = 40
    """Of one user; whoever asks more often waits."""
    question_s: float = 2.0
    answer_s: float = 30.0
    """For all of it, however slowly it is read."""
    bytes_ahead: int = 256 * 1024
    """How much of an answer is kept ready for one who reads slowly."""


async def serve(
    path: str,
    sources: Sources,
    ready: Callable[[], None] = lambda: None,
    tell: Callable[[str], None] = lambda _: None,
    limits: Limits | None = None,
) -> None:
    """Answer at this path until cancelled. Where nobody can listen there, an error says why before `ready`.

    A socket that somebody deletes is made again.
    """
    limits = limits or Limits()
    pool = ThreadPoolExecutor(_READERS, "fallow-desk")
    desk = _SocketServer(sources, limits, pool)
    try:
        while True:
            await _serve_until_deleted(path, desk, limits, ready)
            tell(f"somebody has deleted {path}; it is made again")
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


async def _serve_until_deleted(path: str, desk: "_SocketServer", limits: Limits, ready: Callable[[], None]) -> None:
    file = SocketFile(path, _QUEUE)
    loop = asyncio.get_running_loop()
    try:
        loop.add_reader(file.socket, desk.let_in, file.socket)
        ready()
        try:
            while file.is_there:
                await asyncio.sleep(limits.look_again_s)
        finally:
            loop.remove_reader(file.socket)
            await desk.all_gone()
    finally:
        file.close()


class _SocketServer:
    """Who is connected, and how often each user has asked."""

    def __init__(self, sources: Sources, limits: Limits, pool: ThreadPoolExecutor) -> None:
        self._limits = limits
        self._answers = Answers(sources, pool)
        self._places: dict[int, dict[asyncio.Task[None], None]] = {}
        """The connections of each user, the oldest first."""
        self._turns: dict[int, float] = {}

    def let_in(self, listening: socket.socket) -> None:
        """Whoever waits at the door, as far as there is room for their user. The others are sent away at no cost."""
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                connection, _ = listening.accept()
            except OSError as error:
                if error.errno in SHORTAGES - {errno.EAGAIN}:
                    self._shut_for_a_moment(listening)
                return
            peer = _peer(connection)
            if not self._has_room(peer.uid):
                connection.close()
                continue
            connection.setblocking(False)
            task = asyncio.get_running_loop().create_task(self._connected(peer, connection))
            self._places.setdefault(peer.uid, {})[task] = None
            task.add_done_callback(partial(self._gone, peer.uid, connection))

    def _has_room(self, uid: int) -> bool:
        """Where all places are taken, whoever has most of them gives one up to who has fewer."""
        own = len(self._places.get(uid, ()))
        if own >= self._limits.connections_of_user:
            return False
        if sum(map(len, self._places.values())) < self._limits.connections:
            return True
        most = max(self._places.values(), key=len)
        if len(most) <= own + 1:
            return False
        oldest = next(iter(most))
        del most[oldest]
        oldest.cancel()
        return True

    def _gone(self, uid: int, connection: socket.socket, task: asyncio.Task[None]) -> None:
        connection.close()  # also that of one who was sent away before anybody attended to them
        places = self._places.get(uid, {})
        places.pop(task, None)
        if not places:
            self._places.pop(uid, None)

    def _shut_for_a_moment(self, listening: socket.socket) -> None:
        """There is no descriptor for whoever waits: look again when somebody may have left."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)

        def open_again() -> None:
            if listening.fileno() >= 0:
                loop.add_reader(listening, self.let_in, listening)

        loop.call_later(_SHUT_FOR_S, open_again)

    async def _connected(self, peer: Peer, connection: socket.socket) -> None:
        """One connection, from its first byte to its end. Whatever goes wrong in it ends it, and nothing else."""
        reader = asyncio.StreamReader(_LONGEST_LINE)
        protocol = asyncio.StreamReaderProtocol(reader)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection)
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            await self._serve(peer, reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # they left, or said nothing, or too much: nobody is there who could be told
        finally:
            transport.abort()

    async def all_gone(self) -> None:
        """End every connection."""
        tasks = [task for places in self._places.values() for task in places]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(self._limits.question_s):
            line = await reader.readuntil(b"\n")
        await self._wait_for_turn(peer.uid)
        writer.transport.set_write_buffer_limits(self._limits.bytes_ahead)
        async with asyncio.timeout(self._limits.answer_s):
            await self._answer(peer, line, writer)
            writer.close()
            await writer.wait_closed()  # which is when all of it has been taken

    async def _answer(self, peer: Peer, line: bytes, writer: asyncio.StreamWriter) -> None:
        try:
            async with aclosing(self._answers.to(peer, _request(line))) as parts:
                async for part in parts:
                    writer.write(part)
                    await writer.drain()
        except Refused as refusal:
            writer.write(_refusal(refusal.kind, str(refusal)))
        except WrongUsage as error:
            writer.write(_refusal("usage", str(error)))
        except NotPermitted as error:
            writer.write(_refusal("permission", str(error)))
        except FallowError as error:
            writer.write(_refusal("failed", str(error)))
        except Exception as error:  # noqa: BLE001  a mistake of ours costs one answer, and nobody else's
            writer.write(_refusal("failed", f"the daemon: internal error: {type(error).__name__}"))
        await writer.drain()

    async def _wait_for_turn(self, uid: int) -> None:
        """Each question takes a little of its user's time; who is ahead of it by more than a second waits."""
        now_s = asyncio.get_running_loop().time()
        turn_s = max(self._turns.get(uid, 0.0), now_s - 1.0) + 1 / self._limits.asks_per_s
        self._turns[uid] = turn_s
        if turn_s > now_s:
            await asyncio.sleep(turn_s - now_s)
        if len(self._turns) > self._limits.connections:
            self._turns = {user: at_s for user, at_s in self._turns.items() if at_s > now_s - 1.0}


def _peer(connection: socket.socket) -> Peer:
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return Peer(*_CREDENTIALS.unpack(raw))


def _request(line: bytes) -> dict[str, object]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        raise Refused("usage", "this is no line of JSON") from None
    if not isinstance(request, dict):
        raise Refused("usage", "this is no request")
    return request


def _refusal(kind: str, why: str) -> bytes:
    return json.dumps({"v": VERSION, "no": {"kind": kind, "why": why}}).encode() + b"\n"
