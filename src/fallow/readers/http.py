"""Ask a server one thing over HTTP: a user's on this machine, if the kernel says it is theirs, or one of the config.

Servers may answer late, never, without end, or with anything. One time limit is for the whole of it, and no more is
read than a limit. A redirect is an answer like any other, and proxies of the environment are not used.
"""

import io
import os
import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from http.client import HTTPException, HTTPResponse
from stat import S_ISSOCK
from urllib.parse import urlsplit

from fallow.core.errors import FallowError, NotPermitted
from fallow.core.http import Endpoint, HttpAnswer
from fallow.core.ports import Clock
from fallow.core.units import printable
from fallow.core.unknown import Unknown
from fallow.readers.secret import read_secret
from fallow.readers.sockets import is_within, listener_of

_CHUNK_BYTES = 1 << 16
_MOST_BYTES = 1 << 18  # each answer is parsed, and a user chooses what it is
_LONGEST_COMPLAINT = 200
_CREDENTIALS = struct.Struct("3i")
_PORTS = {"http": 80, "https": 443}
_FIRST_PERSON, _NOBODY = 1000, 65534  # the image of Prometheus runs as nobody
_REFUSALS = (OSError, ValueError, HTTPException, FallowError)
RightsOf = Callable[[int], AbstractContextManager[None]]


class LocalHttp:
    """Asks servers of this machine, after the kernel has said whose each is."""

    def __init__(self, clock: Clock, rights_of: RightsOf | None = None) -> None:
        """`rights_of` takes on the rights of a user who named a path, as long as it is entered."""
        self._clock = clock
        self._rights_of = only_ours if rights_of is None else rights_of

    def __call__(
        self, to: Endpoint, method: str, target: str, headers: Mapping[str, str], limit_s: float
    ) -> HttpAnswer | Unknown:
        """Return the answer of the server, or why there is none."""
        exchange = _Exchange(self._clock, limit_s, _MOST_BYTES)
        whose = f"the server at {to.path}" if to.named_by is None else f"the server of user {to.named_by}"
        where = f"the server at port {to.port}" if to.port else whose  # for everybody to read: not a user's path
        try:
            question = _question(method, target, "localhost", headers)
            # A port may change hands, so it must have been the same user's before and after the connection.
            before = listener_of(to.port) if to.port else None
            with self._connected(to, limit_s) as connection:
                user = _peer(connection) if to.path else listener_of(to.port)
                if user not in to.users or (to.port and before != user):
                    return Unknown(f"{where} belongs to {'an unknown user' if user is None else f'user {user}'}")
                with exchange.secured(connection, _any_server()) if to.tls else connection as ready:
                    return exchange.answer(ready, question, method)
        except _REFUSALS as error:
            if to.named_by is None or isinstance(error, TimeoutError):
                return _not_asked(where, error, limit_s)
            return Unknown(f"{where} cannot be asked")  # what it says is between the server and its user

    def _connected(self, to: Endpoint, limit_s: float) -> socket.socket:
        if to.port:
            return socket.create_connection(("127.0.0.1", to.port), limit_s)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            connection.settimeout(limit_s if to.named_by is None else 0)  # with a user's rights nothing is waited for
            with nullcontext() if to.named_by is None else self._rights_of(to.named_by):
                if to.named_by is not None:
                    _demand_socket_of(to.named_by, to.path)
                connection.connect(to.path)
        except BaseException:
            connection.close()
            raise
        return connection


class RemoteHttp:
    """Asks one server that the config names.

    On this machine any user can listen at the port of a server that does not run. So without TLS one here is asked
    only if the kernel says that it is root's, ours or a system user's.
    """

    def __init__(self, clock: Clock, url: str, token_file: str = "", most_bytes: int = 4 << 20) -> None:
        """Raise ValueError if the address is not one of http or https.

        `token_file` names a file with a bearer token, which is read at each question: tokens are renewed.
        """
        if not url.isprintable() or not url.isascii() or " " in url:
            raise ValueError("the address has characters that do not belong there")
        self._to = urlsplit(url.rstrip("/"))
        if self._to.scheme not in _PORTS or not self._to.hostname:
            raise ValueError("the address must begin with http:// or https:// and name a host")
        if self._to.username or self._to.password or self._to.query or self._to.fragment:
            raise ValueError("the address may have a host, a port and a path, and nothing else")
        self._port = self._to.port or _PORTS[self._to.scheme]
        self._clock = clock
        self._token_file = token_file
        self._most_bytes = most_bytes

    def __call__(
        self, method: str, target: str, headers: Mapping[str, str], limit_s: float, body: bytes = b""
    ) -> HttpAnswer | Unknown:
        """Return the answer of the server, or why there is none."""
        exchange = _Exchange(self._clock, limit_s, self._most_bytes)
        to, host = self._to, self._to.hostname
        try:
            if self._token_file:
                headers = {**headers, "Authorization": f"Bearer {read_secret(self._token_file)}"}
            question = _question(method, f"{to.path}{target}", to.netloc, headers, body)
            with socket.create_connection((host, self._port), max(0.001, limit_s)) as connection:
                if to.scheme == "http":
                    _refuse_strangers(connection)
                    return exchange.answer(connection, question, method)
                with exchange.secured(connection, ssl.create_default_context(), host) as ready:
                    return exchange.answer(ready, question, method)
        except _REFUSALS as error:
            return _not_asked(to.geturl(), error, limit_s)


class _Exchange:
    """One question and its answer, which must be there at one moment and be no longer than a limit."""

    def __init__(self, clock: Clock, limit_s: float, most_bytes: int) -> None:
        self._clock = clock
        self._until_s = clock.monotonic_s() + limit_s
        self._most_bytes = most_bytes

    def secured(self, connection: socket.socket, tls: ssl.SSLContext, host: str | None = None) -> ssl.SSLSocket:
        """Return the connection with TLS on it."""
        self._limit(connection)
        return tls.wrap_socket(connection, server_hostname=host)

    def answer(self, connection: socket.socket, question: bytes, method: str) -> HttpAnswer:
        """Send the question, and return everything that the server answers until it closes the connection."""
        self._limit(connection)
        connection.sendall(question)
        received = _Received()
        while chunk := self._chunk(connection):
            received.write(chunk)
            if received.tell() > self._most_bytes:
                raise ValueError("its answer does not end")
        received.seek(0)
        response = HTTPResponse(received, method=method)  # type: ignore[arg-type]
        response.begin()
        return HttpAnswer(response.status, response.read())

    def _chunk(self, connection: socket.socket) -> bytes:
        self._limit(connection)
        return connection.recv(_CHUNK_BYTES)

    def _limit(self, connection: socket.socket) -> None:
        left_s = self._until_s - self._clock.monotonic_s()
        if left_s <= 0:
            raise TimeoutError
        connection.settimeout(left_s)


class _Received(io.BytesIO):
    """An answer that has arrived, in the form that http.client reads."""

    def makefile(self, _: str) -> io.BytesIO:
        """Return the bytes as a file."""
        return self


def only_ours(user: int) -> AbstractContextManager[None]:
    """Take on the rights of no user but our own; raise NotPermitted for another."""
    if user != os.geteuid():
        raise NotPermitted(f"fallow may not open files of user {user} here")
    return nullcontext()


def _question(method: str, target: str, host: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """Return the bytes of a question, after which the server closes the connection."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if not all(line.isprintable() for line in lines) or " " in target:
        raise ValueError("its address or token has characters that do not belong there")
    return "\r\n".join([*lines, "", ""]).encode() + body


def _not_asked(where: str, error: Exception, limit_s: float) -> Unknown:
    if isinstance(error, TimeoutError):
        return Unknown(f"{where} did not answer within {limit_s:g} s")
    why = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    return Unknown(f"{where} cannot be asked: {printable(why)[:_LONGEST_COMPLAINT]}")


def _any_server() -> ssl.SSLContext:
    """Return what TLS is spoken with: the kernel said whose server it is, so its certificate does not matter."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _peer(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1])


def _demand_socket_of(user: int, path: str) -> None:
    status = os.lstat(path)
    if not S_ISSOCK(status.st_mode) or status.st_uid != user:
        raise ValueError("it is not its user's socket")


def _refuse_strangers(connection: socket.socket) -> None:
    """Raise ValueError if a person listens on this machine who is neither root nor we."""
    if not is_within(connection):
        return
    address, port = connection.getpeername()[:2]
    uid = listener_of(port, address)
    if uid is None or (_FIRST_PERSON <= uid != _NOBODY and uid != os.geteuid()):
        whose = "an unknown user" if uid is None else f"user {uid}"
        raise ValueError(f"{whose} listens there, who is neither root, a system user nor the user of fallow")
