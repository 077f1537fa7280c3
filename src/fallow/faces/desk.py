"""The desk: the daemon's unix socket, where everybody on the machine may ask and nobody can hurt.

One line of JSON is asked, one or some are answered, and the connection ends. Each connection has a time for its
question, one for its answer, and a length for both; each user has a few connections at once and some questions a
second, so that one who floods the desk waits alone. Who asks is what the kernel says, never what the request does.
"""

import asyncio
import json
import socket
import struct
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing

from fallow.actuators.socket_file import SocketFile
from fallow.core.errors import FallowError, NotPermitted, WrongUsage
from fallow.core.value import value
from fallow.core.wire import VERSION
from fallow.engine.sources import Sources
from fallow.faces.desk_answers import Answers, Peer, Refused

_CREDENTIALS = struct.Struct("3i")
_LONGEST_LINE = 64 * 1024
_READERS = 2


@value
class Limits:
    """What one who asks may take from the others."""

    connections: int = 64
    connections_of_user: int = 16
    asks_per_s: int = 40
    """Of one user; whoever asks more often waits."""
    question_s: float = 2.0
    answer_s: float = 30.0
    """For all of it, however slowly it is read."""
    bytes_ahead: int = 256 * 1024
    """How much of an answer is kept ready for one who reads slowly."""


async def serve(
    path: str, sources: Sources, ready: Callable[[], None] = lambda: None, limits: Limits | None = None
) -> None:
    """Answer at this path until cancelled. Where nobody can listen there, an error says why before `ready`."""
    limits = limits or Limits()
    file = SocketFile(path, limits.connections)
    pool = ThreadPoolExecutor(_READERS, "fallow-desk")
    desk = _Desk(sources, limits, pool)
    try:
        server = await asyncio.start_unix_server(desk.connected, sock=file.socket, limit=_LONGEST_LINE)
        ready()
        try:
            await asyncio.Event().wait()
        finally:
            server.close()
            await desk.all_gone()
    finally:
        file.close()
        pool.shutdown(wait=False, cancel_futures=True)


class _Desk:
    """Who is connected, and how often each user has asked."""

    def __init__(self, sources: Sources, limits: Limits, pool: ThreadPoolExecutor) -> None:
        self._limits = limits
        self._answers = Answers(sources, pool)
        self._connected: Counter[int] = Counter()
        self._turns: dict[int, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its first byte to its end. Whatever goes wrong in it ends it, and nothing else."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            peer = _peer(writer)
            if self._connected.total() >= self._limits.connections:
                return
            if self._connected[peer.uid] >= self._limits.connections_of_user:
                return
            self._connected[peer.uid] += 1
            try:
                await self._serve(peer, reader, writer)
            finally:
                self._connected -= Counter({peer.uid: 1})
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # they left, or said nothing, or too much: nobody is there who could be told
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def all_gone(self) -> None:
        """End every connection."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

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
            writer.write(_refusal("failed", f"the daemon failed by a mistake of its own: {type(error).__name__}"))
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


def _peer(writer: asyncio.StreamWriter) -> Peer:
    connection = writer.get_extra_info("socket")
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
