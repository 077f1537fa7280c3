"""Send one HTTP request over a daemon's unix socket, without http.client, which takes longer to load than an answer.

A daemon is trusted only if it runs as root, as the user who asks, or as the owner of the folder of its socket.
"""

import json
import os
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from fallow.core.ports import Clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket

_CONNECTS_WITHIN_S = 2.0
_MOST_BYTES = 64 * 2**20
_CHUNK_BYTES = 256 * 1024
_CREDENTIALS = struct.Struct("3i")
_BUSY = "it is busy with others"
_NONSENSE = "its answer makes no sense"

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
    received = bytearray()
    with connection:
        try:
            connection.sendall(_request(method, target, headers, body))
            while True:
                connection.settimeout(max(0.001, until_s - clock.monotonic_s()))
                chunk = connection.recv(_CHUNK_BYTES)
                if not chunk:
                    return _parsed(received)
                received += chunk
                if len(received) > _MOST_BYTES:
                    raise NoAnswer("its answer does not end")
        except TimeoutError:
            raise NoAnswer(f"it did not answer within {limit_s:g} s") from None
        except OSError as error:
            raise NoAnswer(f"it broke off: {error}" if received else _BUSY) from None


def _request(method: str, target: str, headers: Mapping[str, str], body: Mapping[str, object] | None) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {target} HTTP/1.1", "host: localhost", "connection: close", f"content-length: {len(content)}"]
    lines += [f"{name}: {value}" for name, value in {**headers, "content-type": "application/json"}.items()]
    return "\r\n".join([*lines, "", ""]).encode() + content


def _parsed(received: bytearray) -> Answer:
    if not received:
        raise NoAnswer(_BUSY)
    head, _, body = received.partition(b"\r\n\r\n")
    words = head.split(None, 2)
    try:
        status, facts = int(words[1]), json.loads(body or b"{}")
    except (ValueError, IndexError, RecursionError):
        raise NoAnswer(_NONSENSE) from None
    if not isinstance(facts, dict):
        raise NoAnswer(_NONSENSE)
    return status, facts


def _connect(paths: Sequence[str], limit_s: float) -> "socket | None":
    """Return a connection to the first daemon that is there; None if there is none at all."""
    trouble: NoAnswer | None = None
    for path in filter(os.path.exists, paths):
        from socket import AF_UNIX, SO_PEERCRED, SOCK_STREAM, SOL_SOCKET, socket

        connection = socket(AF_UNIX, SOCK_STREAM)
        try:
            connection.settimeout(limit_s)
            connection.connect(path)
            _, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(SOL_SOCKET, SO_PEERCRED, _CREDENTIALS.size))
            if uid in (0, os.geteuid(), os.stat(os.path.dirname(path) or ".").st_uid):
                return connection
            trouble = NoAnswer(f"the daemon at {path} runs as user {uid}, which is neither root nor you")
        except BlockingIOError:  # too many wait to be accepted
            trouble = NoAnswer(_BUSY)
        except ConnectionRefusedError:
            trouble = NoAnswer(f"nobody listens at {path} any more")
        except OSError as error:
            trouble = NoAnswer(f"{path}: {error}")
        connection.close()
    if trouble is not None:
        raise trouble
    return None
