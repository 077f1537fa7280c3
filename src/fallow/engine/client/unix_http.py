"""Send one HTTP request over a daemon's unix socket, without http.client, which takes longer to load than an answer.

A daemon is trusted only if it runs as root, as the user who asks, or as the owner of the folder of its socket.
"""

import json
import os
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from fallow.core.ports import Clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket

_CONNECTS_WITHIN_S = 2.0
_MOST_BYTES = 64 * 2**20
_CHUNK_BYTES = 256 * 1024
_CREDENTIALS = struct.Struct("3i")
_TIMEVAL = struct.Struct("ll")
_BUSY = "it is busy with others"

Answer = tuple[int, dict[str, Any]]
"""The status of an answer, and the object in its body; an empty one where there is no body."""


class NoAnswer(Exception):
    """The daemon is not there, does not answer, or not to this user."""


def ask(
    paths: Sequence[str],
    clock: Clock,
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: Mapping[str, object] | None = None,
    limit_s: float = _CONNECTS_WITHIN_S,
) -> Answer | None:
    """Return the answer of the first daemon that is there; None if there is none at all."""
    until_s = clock.monotonic_s() + limit_s
    connection = _connect(paths, min(limit_s, _CONNECTS_WITHIN_S))
    if connection is None:
        return None
    begun = False
    try:
        connection.sendall(_request(method, target, headers, body))
        received = b""
        while True:
            connection.settimeout(max(0.001, until_s - clock.monotonic_s()))
            chunk = connection.recv(_CHUNK_BYTES)
            if not chunk:
                break
            begun = True
            received += chunk
            if len(received) > _MOST_BYTES:
                raise NoAnswer("its answer does not end")
        if not begun:
            raise NoAnswer(_BUSY)
        return _parsed(received)
    except ConnectionError as error:
        raise NoAnswer(f"it broke off: {error}" if begun else _BUSY) from None
    except TimeoutError:
        raise NoAnswer(f"it did not answer within {limit_s:g} s") from None
    except OSError as error:
        raise NoAnswer(f"it cannot be asked: {error}") from None
    finally:
        connection.close()


def _request(method: str, target: str, headers: Mapping[str, str], body: Mapping[str, object] | None) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {target} HTTP/1.1", "host: localhost", "connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None:
        lines += ["content-type: application/json", f"content-length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content


def _parsed(received: bytes) -> Answer:
    head, end, body = received.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    words = first.split()
    if not end or len(words) < 2 or not words[0].startswith(b"HTTP/1") or not words[1].isdigit():
        raise NoAnswer("its answer makes no sense")
    for line in lines:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip() != str(len(body)).encode():
            raise NoAnswer("it broke off in the middle of its answer")
    try:
        facts = json.loads(body) if body else {}
    except (ValueError, RecursionError):
        raise NoAnswer("its answer makes no sense") from None
    if not isinstance(facts, dict):
        raise NoAnswer("its answer makes no sense")
    return int(words[1]), facts


def _connect(paths: Sequence[str], limit_s: float) -> "socket | None":
    """Return a connection to the first daemon that is there; None if there is none at all.

    While many wait to be accepted, this waits too: with a time limit of Python's the kernel would refuse at once.
    """
    trouble: NoAnswer | None = None
    for path in paths:
        if not os.path.exists(path):
            continue
        from socket import AF_UNIX, SO_PEERCRED, SO_SNDTIMEO, SOCK_STREAM, SOL_SOCKET, socket

        connection = socket(AF_UNIX, SOCK_STREAM)
        try:
            connection.setsockopt(SOL_SOCKET, SO_SNDTIMEO, _TIMEVAL.pack(*divmod(int(limit_s * 1e6), 10**6)))
            connection.connect(path)
            connection.settimeout(limit_s)
            _, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(SOL_SOCKET, SO_PEERCRED, _CREDENTIALS.size))
            if uid in (0, os.geteuid(), os.stat(os.path.dirname(path) or ".").st_uid):
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
