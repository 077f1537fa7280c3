"""Doors shut: who may ask, under which name, and who may do something."""

import os
import pathlib
import socket
import stat
import time
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from starlette.responses import PlainTextResponse

from fallow.core.errors import FallowError, NotPermitted, WrongUsage
from fallow.engine.config.listen_address import Address
from fallow.interfaces.web.access import WRONG_TOKEN_S
from fallow.interfaces.web.server import bound, listen
from fallow.interfaces.web.settings import Settings, Visitor, checked, said_at_start
from fallow.interfaces.web.token import token_in
from fallow.readers.token_file import hashed
from tests.interfaces.web.boards import varied
from tests.interfaces.web.served import TOKEN, Site, hall, served
from tests.places import LIMIT_S

FORM = {"content-type": "application/x-www-form-urlencoded"}
IPV6 = pathlib.Path("/proc/net/if_inet6")
WITH_IPV6 = pytest.mark.skipif(not IPV6.exists() or "lo" not in IPV6.read_text(), reason="there is no ::1")
EVERYTHING = ("/", "/stream", "/metrics", "/api/v1/status", "/api/v1/protections", "/nothing")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A page on loopback, with a token."""
    with served(hall(varied), tmp_path_factory.mktemp("site"), token=TOKEN) as made:
        yield made


@pytest.fixture(scope="module")
def reachable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A page that takes itself to listen on every address of the machine."""
    home = tmp_path_factory.mktemp("reachable")
    with served(hall(varied), home, token=TOKEN, pretend=Address("0.0.0.0", 8990)) as made:
        yield made


NOT_OURS = [
    *("evil.example", "evil.example:8990", "localhost.evil.example", "127.0.0.1.nip.io", "", "."),
    *("localhost:8990@evil.example", "localhost:evil.example", "[::1]evil.example", "[::1]:8990.evil.example"),
]


@pytest.mark.parametrize("host", NOT_OURS)
def test_a_name_that_was_made_to_point_here_is_not_answered(site: Site, host: str) -> None:
    for path in ("/", "/api/v1/status", "/metrics", "/login", "/static/page.js"):
        assert site.ask(path, headers={"host": host}).status == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8990", "127.0.0.1:1", "[::1]:8990", "localhost."])
def test_names_of_this_machine_are_answered(site: Site, host: str) -> None:
    assert site.ask("/api/v1/status", headers={"host": host}).status == 200


def test_a_name_from_the_config_is_answered(tmp_path: pathlib.Path) -> None:
    with served(hall(varied), tmp_path, token=TOKEN, hosts=("GPU.lab.example",)) as site:
        assert site.ask("/healthz", headers={"host": "gpu.lab.example:80"}).status == 200
        assert site.ask("/healthz", headers={"host": "lab.example"}).status == 421


@pytest.mark.parametrize("host", ["gpu1.lab", "localhost"])
def test_behind_a_proxy_reading_needs_the_token(tmp_path: pathlib.Path, host: str) -> None:
    with served(hall(varied), tmp_path, token=TOKEN, hosts=("gpu1.lab",)) as site:
        assert site.ask("/api/v1/status", headers={"host": host}).status == 401
        assert site.ask("/", headers={"host": host}).status == 303
        assert site.with_token("/api/v1/status").status == 200
    with pytest.raises(WrongUsage, match="may be reached from other machines"):
        checked(Settings(Address("127.0.0.1", 8990), hosts=("gpu1.lab",)))


def test_where_every_address_is_listened_on_an_address_is_a_name(reachable: Site) -> None:
    assert reachable.ask("/healthz", headers={"host": "192.0.2.7:8990"}).status == 200
    assert reachable.ask("/healthz", headers={"host": "evil.example"}).status == 421


@pytest.mark.parametrize(
    "path", ["/", "/login", "/static/page.css", "/api/v1/status", "/metrics", "/nothing", "/healthz"]
)
def test_every_answer_lets_nothing_in_from_elsewhere(site: Site, path: str) -> None:
    headers = site.ask(path).headers
    policy = {part.split()[0]: part.split()[1:] for part in headers["content-security-policy"].split(";")}
    assert policy["default-src"] == ["'none'"]
    assert policy["frame-ancestors"] == ["'none'"]
    assert {word for words in policy.values() for word in words} == {"'none'", "'self'"}
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


def test_an_address_that_others_reach_needs_a_token() -> None:
    for host in ("0.0.0.0", "192.0.2.1", "::"):
        with pytest.raises(WrongUsage, match="can be reached from other machines"):
            checked(Settings(Address(host, 0)))
    assert "can be reached from other machines" in said_at_start(Settings(Address("0.0.0.0", 8990), hashed(TOKEN)))
    assert "this machine only" in said_at_start(Settings(Address("127.0.0.1", 8990)))


@pytest.mark.parametrize("path", EVERYTHING)
def test_who_can_be_anybody_must_know_the_token_to_read(reachable: Site, path: str) -> None:
    answer = reachable.ask(path)
    assert answer.status == (303 if path == "/" else 401)
    assert reachable.ask(path, headers={"authorization": "Bearer wrong"}).status == 401
    assert reachable.ask(path, headers={"authorization": TOKEN}).status == answer.status
    assert b"H100" not in answer.body


def test_the_token_opens_what_is_shut(reachable: Site) -> None:
    for path in ("/", "/metrics", "/api/v1/status"):
        assert reachable.with_token(path).status == 200
    for path in ("/login", "/healthz", "/static/page.css"):
        assert reachable.ask(path).status in (200, 503), "these tell nothing, but whether somebody looks at the GPUs"


def cookie(site: Site) -> str:
    """What a browser has after the form for the token."""
    headers = {**FORM, "origin": site.url}
    answer = site.ask("/login", "POST", urlencode({"token": TOKEN}), headers)
    assert answer.status == 303
    assert answer.headers["location"] == "/"
    text = answer.headers["set-cookie"]
    assert "HttpOnly" in text
    assert "SameSite=strict" in text
    assert TOKEN not in text
    return text.partition(";")[0]


def test_the_form_gives_a_cookie_that_proves_the_token_and_does_not_tell_it(reachable: Site) -> None:
    assert reachable.ask("/", headers={"cookie": cookie(reachable)}).status == 200
    name = cookie(reachable).partition("=")[0]
    assert reachable.ask("/", headers={"cookie": f"{name}={TOKEN}"}).status == 303
    assert reachable.ask("/", headers={"cookie": f"{name}="}).status == 303


def test_behind_a_proxy_with_tls_the_cookie_never_travels_without(site: Site) -> None:
    body = urlencode({"token": TOKEN})
    headers = {**FORM, "origin": f"https://{site.address}"}
    assert "; Secure" in site.ask("/login", "POST", body, headers).headers["set-cookie"]
    assert "; Secure" not in site.ask("/login", "POST", body, {**FORM, "origin": site.url}).headers["set-cookie"]


def test_a_browser_stays_logged_in_on_two_machines_that_are_both_localhost(site: Site, reachable: Site) -> None:
    jar = dict(cookie(each).split("=", 1) for each in (site, reachable))
    both = {"cookie": "; ".join(f"{name}={word}" for name, word in jar.items())}
    for each in (site, reachable):
        assert "Log out" in each.ask("/", headers=both).text


def test_a_wrong_token_is_answered_late_and_gives_no_cookie(site: Site) -> None:
    began_s = time.monotonic()
    answer = site.ask("/login", "POST", urlencode({"token": "x" * 30}), {**FORM, "origin": site.url})
    assert answer.status == 403
    assert "set-cookie" not in answer.headers
    assert 'role="alert"' in answer.text
    assert time.monotonic() - began_s >= WRONG_TOKEN_S
    assert site.ask("/api/v1/status", headers={"authorization": "Bearer wrong"}).status == 401
    assert time.monotonic() - began_s >= 2 * WRONG_TOKEN_S


def test_a_hold_needs_the_token_on_loopback_too(site: Site) -> None:
    wanted = {"subject": "gpu:1", "for_s": 60}
    assert site.ask("/api/v1/protections", "POST", wanted).status == 401
    assert site.ask("/api/v1/protections/1", "DELETE").status == 401
    assert site.ask("/protections", "POST", "subject=all&for=1h", FORM).status == 401
    assert site.ask("/api/v1/protections").json["protections"] == []
    made = site.with_token("/api/v1/protections", "POST", wanted)
    assert made.status == 201
    (listed,) = site.ask("/api/v1/protections").json["protections"]
    assert made.json == {**listed, "version": 1}
    assert site.with_token(f"/api/v1/protections/{made.json['id']}", "DELETE").status == 204
    assert site.ask("/api/v1/protections").json["protections"] == []


def test_another_page_cannot_use_the_cookie(site: Site) -> None:
    known = {**FORM, "cookie": cookie(site)}
    for origin in ("http://localhost:1", "http://evil.example", "null", f"http://x.{site.address}"):
        assert site.ask("/protections", "POST", "subject=all&for=1h", {**known, "origin": origin}).status == 401
        assert site.ask("/login", "POST", f"token={TOKEN}", {**FORM, "origin": origin}).status == 403
        assert site.ask("/logout", "POST", "", {**known, "origin": origin}).status == 403
    assert site.ask("/protections", "POST", "subject=all&for=1h", known).status == 401, (
        "a browser always says where from"
    )
    assert site.ask("/api/v1/protections").json["protections"] == []
    own = {**known, "origin": site.url}
    assert site.ask("/protections", "POST", "subject=all&for=1h&why=mine", own).status == 303
    (protection,) = site.ask("/api/v1/protections").json["protections"]
    assert (protection["subject"], protection["why"]) == ("all", "mine")
    assert site.ask(f"/protections/{protection['id']}/release", "POST", "", own).status == 303
    assert site.ask("/api/v1/protections").json["protections"] == []


@pytest.mark.as_root
def test_a_hold_of_somebody_else_stays_theirs(site: Site) -> None:
    from fallow.actuators.claims.folder import ClaimFolder
    from fallow.actuators.claims.protections import ProtectionFolder
    from fallow.core.protections import Everything

    folder = ClaimFolder(str(site.home / "claims"))
    number = ProtectionFolder(folder, str).place(Everything(), 4e9, "theirs")
    os.chown(site.home / "claims" / f"protection-{number}", 12345, 12345)
    try:
        answer = site.with_token(f"/api/v1/protections/{number}", "DELETE")
        assert answer.status == 403
        assert len(site.ask("/api/v1/protections").json["protections"]) == 1
    finally:
        ProtectionFolder(folder, str).release(number)
        folder.close()


def test_without_a_token_in_the_config_nobody_can_do_anything(tmp_path: pathlib.Path) -> None:
    with served(hall(varied), tmp_path) as site:
        assert site.ask("/api/v1/protections", "POST", {"subject": "all", "for_s": 60}).status == 403
        assert site.with_token("/api/v1/protections", "POST", {"subject": "all", "for_s": 60}).status == 403
        assert site.ask("/login").status == 404
        assert "Place a protection" not in site.ask("/").text


def test_nothing_takes_a_command_and_no_answer_is_a_lever(site: Site) -> None:
    changes = {(route.path, *(route.methods - {"GET", "HEAD"})) for route in site.app.routes}
    changes = {each for each in changes if each[0].startswith("/api/") and len(each) > 1}
    protecting = {("/api/v1/protections", "POST"), ("/api/v1/protections/{number}", "DELETE")}
    assert changes == {*protecting, ("/api/v1/reload", "POST"), ("/api/v1/wake", "POST")}
    assert site.with_token("/api/v1/wake", "POST", {"subject": "all"}).status == 403, "only by the socket"
    assert site.with_token("/api/v1/reload", "POST").status == 403, "only by the socket"
    page = site.with_token("/").text
    assert {part.split('"')[0] for part in page.split('action="')[1:]} <= {
        "/protections",
        "/logout",
        "/protections/4/release",
    }


@pytest.mark.parametrize("path", ["/api/v1/protections", "/login", "/protections"])
def test_a_body_without_end_is_refused(site: Site, path: str) -> None:
    known = {"authorization": f"Bearer {TOKEN}", "origin": site.url}
    assert site.ask(path, "POST", "x" * 9000, known).status == 413
    assert site.ask(path, "POST", iter([b"x" * 10]), {**known, "transfer-encoding": "chunked"}).status == 411


def test_a_token_that_is_not_there_is_made_for_its_owner_alone(tmp_path: pathlib.Path) -> None:
    path, told = tmp_path / "token", []
    old = os.umask(0)
    try:
        token = token_in(str(path), told.append)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(token) >= 32
    assert str(path) in told[0]
    assert token not in told[0]
    assert token_in(str(path), told.append) == token
    assert len(told) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o777])
def test_a_token_that_others_can_read_is_refused(tmp_path: pathlib.Path, mode: int) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(mode)
    with pytest.raises(NotPermitted, match="others can read the token"):
        token_in(str(path), print)


@pytest.mark.as_root
def test_a_token_of_somebody_else_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o600)
    os.chown(path, 12345, 12345)
    with pytest.raises(NotPermitted, match="belongs to another user"):
        token_in(str(path), print)


@pytest.mark.parametrize("content", ["", "short", "two words that are long enough", "ünïcödé-token-long-enough"])
def test_a_token_that_is_none_is_refused(tmp_path: pathlib.Path, content: str) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(WrongUsage):
        token_in(str(path), print)


def test_a_token_is_not_made_through_a_link_nor_read_from_a_pipe(tmp_path: pathlib.Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FallowError):
        token_in(str(tmp_path / "link"), print)
    assert not (tmp_path / "elsewhere").exists()
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(WrongUsage, match="no file"):
        token_in(str(tmp_path / "pipe"), print)


def test_only_the_token_is_the_token() -> None:
    settings = Settings(Address("127.0.0.1", 8990), hashed(TOKEN))
    assert settings.visitor(TOKEN) == Visitor()
    assert settings.visitor(TOKEN[:-1]) is None
    assert settings.visitor("") is None


def test_the_config_opens_the_page_and_it_is_told_where(tmp_path: pathlib.Path) -> None:
    from fallow.engine.config.model import Page
    from fallow.engine.machine.clock import SystemClock
    from fallow.interfaces.web.compose import open_page

    told: list[str] = []
    app = PlainTextResponse("hello")
    page = Page.model_validate({"listen": "127.0.0.1:0", "token_file": str(tmp_path / "token")})
    server = open_page(app, page, SystemClock(), told.append)
    assert server is not None
    for each in server._listening:
        each.close()
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert "this machine only" in told[-1]
    assert open_page(app, Page.model_validate({"enabled": False}), SystemClock(), told.append) is None


def test_a_port_that_is_taken_is_told_before_anything_is_served() -> None:
    taken = listen(Address("127.0.0.1", 0))
    try:
        with pytest.raises(FallowError, match=r"another program listens on .*give no token"):
            listen(bound(Address("127.0.0.1", 0), taken))
    finally:
        for each in taken:
            each.close()


@WITH_IPV6
def test_who_asks_at_the_other_address_of_localhost_is_known_as_the_same_user(site: Site) -> None:
    answer = site.ask("/login", "POST", urlencode({"token": TOKEN}), {**FORM, "origin": site.url})
    known = {"cookie": answer.headers["set-cookie"].partition(";")[0]}
    other = Site(Address("::1", site.address.port), site.app, site.home)
    assert "Place a protection" in other.ask("/", headers=known).text
    assert "Place a protection" not in other.ask("/").text


@WITH_IPV6
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "0.0.0.0", "::1"])
def test_nobody_else_can_listen_where_the_name_localhost_leads_to(host: str) -> None:
    ours = listen(Address(host, 0))
    try:
        port = bound(Address(host, 0), ours).port
        for name in ("127.0.0.1", "::1"):
            with pytest.raises(FallowError, match=r"another program listens on .*give no token"):
                listen(Address(name, port))
            socket.create_connection((name, port), LIMIT_S).close()
    finally:
        for each in ours:
            each.close()


@WITH_IPV6
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "0.0.0.0"])
def test_where_a_neighbour_listens_at_the_other_address_of_localhost_there_is_no_page(host: str) -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as theirs:
        port = theirs.getsockname()[1]
        with pytest.raises(FallowError, match=rf"another program listens on \[::1\]:{port}, .*give no token"):
            listen(Address(host, port))
