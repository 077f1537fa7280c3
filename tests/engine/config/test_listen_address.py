"""Where the page listens is understood, and known to be this machine's own or not."""

import pytest

from fallow.core.errors import WrongUsage
from fallow.engine.config.listen_address import Address, address


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("127.0.0.1:8990", "127.0.0.1", 8990, True),
        ("127.8.8.8:0", "127.8.8.8", 0, True),
        ("[::1]:80", "::1", 80, True),
        ("localhost:80", "localhost", 80, True),
        ("0.0.0.0:80", "0.0.0.0", 80, False),
        ("[::]:80", "::", 80, False),
        ("10.0.0.5:65535", "10.0.0.5", 65535, False),
        ("[fd00::5]:80", "fd00::5", 80, False),
    ],
)
def test_an_address_is_read(text: str, host: str, port: int, loopback: bool) -> None:
    found = address(text)
    assert (found, found.is_loopback) == (Address(host, port), loopback)
    assert address(str(found)) == found


@pytest.mark.parametrize(
    "text",
    ["", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "example.org:80", "::1:80", "[10.0.0.1]:80", "1:2:3"],
)
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(WrongUsage, match=r"127\.0\.0\.1:8990"):
        address(text)


@pytest.mark.parametrize("text", ["127.0.0.1:99999", "127.0.0.1:65536", "localhost:http", "[::1]:-1"])
def test_a_port_that_is_none_is_told_with_the_ports_that_there_are(text: str) -> None:
    with pytest.raises(WrongUsage, match="is not a number from 1 to 65535, or 0 for any free port"):
        address(text)
