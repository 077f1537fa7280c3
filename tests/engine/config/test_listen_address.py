"""Where the page listens is understood, and known to be this machine's own or not."""

import pytest

from fallow.engine.config.listen_address import Address, address


@pytest.mark.parametrize(("text", "loopback"), [("[::1]:80", True), ("localhost:80", True), ("0.0.0.0:0", False)])
def test_an_address_is_read(text: str, loopback: bool) -> None:
    found = address(text)
    assert (str(found), found.is_loopback) == (text, loopback)
    assert found == Address(text.rpartition(":")[0].strip("[]"), int(text.rpartition(":")[2]))
