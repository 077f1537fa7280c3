"""One question and one answer over HTTP, on a connection that is closed afterwards.

Servers may answer late, never, without end, or with anything: the time limit is for the whole of it, not for each
part, and no more is read than a limit. These functions raise OSError, ValueError or HTTPException.
"""

import io
import socket
import ssl
from collections.abc import Mapping
from http.client import HTTPResponse

from fallow.core.http import HttpAnswer
from fallow.core.ports import Clock

_CHUNK_BYTES = 1 << 16


def exchange(
    connection: socket.socket, question: bytes, method: str, clock: Clock, until_s: float, most_bytes: int
) -> HttpAnswer:
    """Send the question, and return the answer of the server."""
    connection.settimeout(_left_s(clock, until_s))
    connection.sendall(question)
    return _parsed(_received(connection, clock, until_s, most_bytes), method)


def question(method: str, target: str, host: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """Return the bytes of a question, after which the server closes the connection."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if not all(line.isprintable() for line in lines) or " " in target:
        raise ValueError("its address or token has characters that do not belong there")
    return "\r\n".join([*lines, "", ""]).encode() + body


def secured(
    connection: socket.socket, context: ssl.SSLContext, clock: Clock, until_s: float, host: str | None = None
) -> ssl.SSLSocket:
    """Return the connection with TLS on it."""
    connection.settimeout(_left_s(clock, until_s))
    return context.wrap_socket(connection, server_hostname=host)


def _left_s(clock: Clock, until_s: float) -> float:
    left_s = until_s - clock.monotonic_s()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _received(connection: socket.socket, clock: Clock, until_s: float, most_bytes: int) -> bytes:
    """Return everything until the server closes the connection, as it was asked to."""
    received = bytearray()
    while True:
        connection.settimeout(_left_s(clock, until_s))
        chunk = connection.recv(_CHUNK_BYTES)
        if not chunk:
            return bytes(received)
        received += chunk
        if len(received) > most_bytes:
            raise ValueError("its answer does not end")


class _Whole:
    """An answer that has arrived, in the form that http.client reads."""

    def __init__(self, received: bytes) -> None:
        self._received = received

    def makefile(self, _: str) -> io.BytesIO:
        """Return the bytes as a file."""
        return io.BytesIO(self._received)


def _parsed(received: bytes, method: str) -> HttpAnswer:
    response = HTTPResponse(_Whole(received), method=method)  # type: ignore[arg-type]
    try:
        response.begin()
        return HttpAnswer(response.status, response.read())
    finally:
        response.close()
