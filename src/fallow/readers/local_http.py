"""Ask a server of this machine one thing over HTTP, after the kernel has said whose server it is.

Root asks servers of other users: they may answer late, never, without end, or with anything.
"""

import os
import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from http.client import HTTPException
from stat import S_ISSOCK

from fallow.core.errors import NotPermitted
from fallow.core.http import Endpoint, HttpAnswer
from fallow.core.ports import Clock
from fallow.core.units import printable
from fallow.core.unknown import Unknown
from fallow.readers.http_exchange import exchange, question, secured
from fallow.readers.socket_users import listener_of

_MOST_BYTES = 1 << 18  # each answer is parsed, and a user chooses what it is
_LONGEST_COMPLAINT = 200
_CREDENTIALS = struct.Struct("3i")
RightsOf = Callable[[int], AbstractContextManager[None]]


class LocalHttp:
    """Asks servers of this machine."""

    def __init__(self, clock: Clock, rights_of: RightsOf | None = None) -> None:
        """`rights_of` takes on the rights of a user who named a path, as long as it is entered."""
        self._clock = clock
        self._rights_of = only_ours if rights_of is None else rights_of

    def __call__(
        self, to: Endpoint, method: str, target: str, headers: Mapping[str, str], limit_s: float
    ) -> HttpAnswer | Unknown:
        """Return the answer of the server, or why there is none."""
        until_s = self._clock.monotonic_s() + limit_s
        where = _place(to)
        try:
            words = question(method, target, "localhost", headers)
            # A port may change hands, so it must have been the same user's before and after the connection.
            before = listener_of(to.port) if to.port else None
            if to.port and before is not None and before not in to.users:
                return _of_another(where, before)
            with self._connected(to, limit_s) as connection:
                user = _peer(connection) if to.path else listener_of(to.port)
                if user not in to.users or (to.port and before != user):
                    return _of_another(where, user)
                with secured(connection, _any_server(), self._clock, until_s) if to.tls else connection as ready:
                    return exchange(ready, words, method, self._clock, until_s, _MOST_BYTES)
        except TimeoutError:
            return Unknown(f"{where} did not answer within {limit_s:g} s")
        except (OSError, ValueError, HTTPException, NotPermitted) as error:
            if to.named_by is not None:  # everybody is told, and what it says is between the server and its user
                return Unknown(f"{where} cannot be asked")
            why = printable(str(error))[:_LONGEST_COMPLAINT] or type(error).__name__
            return Unknown(f"{where} cannot be asked: {why}")

    def _connected(self, to: Endpoint, limit_s: float) -> socket.socket:
        if to.port:
            return socket.create_connection(("127.0.0.1", to.port), limit_s)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            connection.settimeout(limit_s)
            if to.named_by is None:
                connection.connect(to.path)
            else:
                self._connect_as(to.named_by, connection, to.path)
                connection.settimeout(limit_s)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_as(self, user: int, connection: socket.socket, path: str) -> None:
        """Connect to a socket of this user with their rights, and wait for nothing meanwhile."""
        connection.setblocking(False)
        with self._rights_of(user):
            status = os.lstat(path)
            if not S_ISSOCK(status.st_mode) or status.st_uid != user:
                raise ValueError("it is not its user's socket")
            connection.connect(path)


def _any_server() -> ssl.SSLContext:
    """Return what TLS is spoken with: the kernel said whose server it is, so its certificate does not matter."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def only_ours(user: int) -> AbstractContextManager[None]:
    """Take on the rights of no user but our own; raise NotPermitted for another."""
    if user != os.geteuid():
        raise NotPermitted(f"fallow may not open files of user {user} here")
    return nullcontext()


def _of_another(where: str, user: int | None) -> Unknown:
    return Unknown(f"{where} belongs to {'an unknown user' if user is None else f'user {user}'}")


def _place(to: Endpoint) -> str:
    """Return where the server is, for everybody to read: not the path of a user."""
    if to.port:
        return f"the server at port {to.port}"
    return f"the server at {to.path}" if to.named_by is None else f"the server of user {to.named_by}"


def _peer(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1])
