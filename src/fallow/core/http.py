"""One question over HTTP to a server of this machine: where it is, who it must belong to, and its answer."""

from collections.abc import Mapping
from typing import Protocol

from fallow.core.unknown import Unknown
from fallow.core.value import value


@value
class Endpoint:
    """A server of this machine: the path of a unix socket, or a port of the loopback interface."""

    path: str = ""
    port: int = 0
    tls: bool = False
    users: frozenset[int] = frozenset((0,))
    """The users that the server may run as; the answer of any other is not asked for."""
    named_by: int | None = None
    """The user who said where it is; None for root or us. A path is opened with their rights, and must be theirs."""


@value
class HttpAnswer:
    """The status and the body of an answer."""

    status: int
    body: bytes = b""


class Http(Protocol):
    """Asks servers of this machine. It never waits longer than it may, and reads no more than a limit."""

    def __call__(
        self, to: Endpoint, method: str, target: str, headers: Mapping[str, str], limit_s: float
    ) -> HttpAnswer | Unknown:
        """Return the answer, or why there is none."""
