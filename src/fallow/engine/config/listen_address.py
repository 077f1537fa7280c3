"""The address and port that the page listens on."""

from ipaddress import ip_address

from fallow.core.errors import WrongUsage
from fallow.core.units import is_number
from fallow.core.value import value

_HOW = "write it as 127.0.0.1:8990, [::1]:8990 or localhost:8990"
_HIGHEST_PORT = 65535


@value
class Address:
    """A host, which is an IP address or `localhost`, and a port; 0 means any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can reach it."""
        return self.host == "localhost" or ip_address(self.host).is_loopback


def address(text: str) -> Address:
    """Return the address that a text such as `127.0.0.1:8990` means."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not port:
        raise WrongUsage(f"{text[:60]!r} has no {'address' if is_number(port) else 'port'}", _HOW)
    if not is_number(port) or int(port) > _HIGHEST_PORT:
        raise WrongUsage(
            f"the port of {text[:60]!r} is not a number from 1 to {_HIGHEST_PORT}, or 0 for any free port", _HOW
        )
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if bare == "localhost":
        return Address(bare, int(port))
    try:
        found = ip_address(bare)
    except ValueError:
        raise WrongUsage(f"{text[:60]!r} is not an address of this machine", _HOW) from None
    if (found.version == 6) != host.startswith("["):
        raise WrongUsage(f"{text[:60]!r} is ambiguous", _HOW)
    return Address(str(found), int(port))
