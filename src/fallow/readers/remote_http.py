"""Ask a server that the config names one thing over HTTP: it may answer late, never, without end, or with anything.

Only that host is asked: a redirect is an answer like any other, and proxies of the environment are not used.

On this machine any user can listen at the port of a server that does not run. So without TLS one here is asked only
if the kernel says that it is root's, ours or a system user's.
"""

import os
import socket
import ssl
import stat
from collections.abc import Mapping
from http.client import HTTPException
from urllib.parse import urlsplit

from fallow.core.http import HttpAnswer
from fallow.core.ports import Clock
from fallow.core.units import printable
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.readers.http_exchange import exchange, question, secured
from fallow.readers.socket_users import is_within, listener_of

_PORTS = {"http": 80, "https": 443}
_LONGEST_COMPLAINT = 200
_LONGEST_TOKEN = 16 << 10
_FIRST_PERSON, _NOBODY = 1000, 65534  # the image of Prometheus runs as nobody


@value
class Server:
    """A server by its address, such as `https://prometheus.example:9090/prefix`."""

    scheme: str
    host: str
    port: int
    prefix: str = ""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.named}{self.prefix}"

    @property
    def named(self) -> str:
        """Return its host and port as the address has them; an IPv6 address is in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def server_at(url: str) -> Server:
    """Return the server of an address; raise ValueError if it is not one of http or https."""
    if not url.isprintable() or not url.isascii() or " " in url:
        raise ValueError("the address has characters that do not belong there")
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("the address must begin with http:// or https:// and name a host")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("the address may have a host, a port and a path, and nothing else")
    return Server(parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme], parts.path.rstrip("/"))


class RemoteHttp:
    """Asks one server."""

    def __init__(self, clock: Clock, server: Server, token_file: str = "", most_bytes: int = 4 << 20) -> None:
        """`token_file` names a file with a bearer token, which is read at each question: tokens are renewed."""
        self._clock = clock
        self._server = server
        self._token_file = token_file
        self._most_bytes = most_bytes

    def __call__(
        self, method: str, target: str, headers: Mapping[str, str], limit_s: float, body: bytes = b""
    ) -> HttpAnswer | Unknown:
        """Return the answer of the server, or why there is none."""
        until_s = self._clock.monotonic_s() + limit_s
        to = self._server
        try:
            if self._token_file:
                headers = {**headers, "Authorization": f"Bearer {_token_in(self._token_file)}"}
            words = question(method, f"{to.prefix}{target}", to.named, headers, body)
            with socket.create_connection((to.host, to.port), max(0.001, limit_s)) as connection:
                if to.scheme == "http":
                    _refuse_strangers(connection)
                    return exchange(connection, words, method, self._clock, until_s, self._most_bytes)
                context = ssl.create_default_context()
                with secured(connection, context, self._clock, until_s, to.host) as ready:
                    return exchange(ready, words, method, self._clock, until_s, self._most_bytes)
        except TimeoutError:
            return Unknown(f"{to} did not answer within {limit_s:g} s")
        except (OSError, ValueError, HTTPException) as error:
            said = (isinstance(error, OSError) and error.strerror) or str(error)
            why = printable(said)[:_LONGEST_COMPLAINT] or type(error).__name__
            return Unknown(f"{to} cannot be asked: {why}")


def _refuse_strangers(connection: socket.socket) -> None:
    """Raise ValueError if a person listens on this machine who is neither root nor we."""
    if not is_within(connection):
        return
    address, port = connection.getpeername()[:2]
    uid = listener_of(port, address, connection.family)
    if uid is None or (_FIRST_PERSON <= uid != _NOBODY and uid != os.geteuid()):
        whose = "an unknown user" if uid is None else f"user {uid}"
        raise ValueError(f"{whose} listens there, who is neither root, a system user nor the user of fallow")


def _token_in(path: str) -> str:
    """Return the word in the file; raise ValueError if there is none."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError("the token file is no file")
        word = file.read(_LONGEST_TOKEN).decode(errors="replace").strip()
    if not word.isascii() or not word.isprintable() or not word or " " in word:
        raise ValueError("the token file does not hold one word")
    return word
