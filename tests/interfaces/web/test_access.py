"""Who may ask for what, under which name, and in whose name they act."""

import os
import pathlib
import pwd
import socket
import stat
import time
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from starlette.responses import PlainTextResponse

from fallow.actuators.host.as_user import in_the_name_of
from fallow.core.account import Account
from fallow.core.board import Board
from fallow.core.errors import FallowError, NotPermitted, WrongUsage
from fallow.core.value import replace
from fallow.core.visibility import ANYBODY, seen_by
from fallow.engine.config.listen_address import Address
from fallow.engine.config.model import Page
from fallow.engine.config.persons import KnownPerson
from fallow.engine.machine.clock import SystemClock
from fallow.interfaces.web import access, login
from fallow.interfaces.web.compose import open_page
from fallow.interfaces.web.server import bound, listen
from fallow.interfaces.web.sessions import Sessions
from fallow.interfaces.web.settings import Settings, Visitor, checked, said_at_start
from fallow.interfaces.web.token import token_in
from fallow.readers.secret import hashed
from tests.interfaces.web.boards import varied
from tests.interfaces.web.served import TOKEN, Answer, Site, hall, served
from tests.places import LIMIT_S, ME

FORM = {"content-type": "application/x-www-form-urlencoded"}
IPV6 = pathlib.Path("/proc/net/if_inet6")
WITH_IPV6 = pytest.mark.skipif(not IPV6.exists() or "lo" not in IPV6.read_text(), reason="there is no ::1")
ADAS, BOBS, ROOTS = "the-token-of-ada-alone", "the-token-of-bob-alone", "the-token-of-root-alone"
NEIGHBOUR = 54329
PROTECTIONS = "/api/v1/protections"


def person(name: str, uid: int, token: str) -> KnownPerson:
    return KnownPerson(Account(name, uid, uid, "/", "/bin/sh"), hashed(token))


PERSONS = (person("ada", 54321, ADAS), person("bob", 54322, BOBS), person("root", 0, ROOTS))


def as_published(wall_s: float) -> Board:
    """A board as the daemon publishes it: with whole command lines apart."""
    made = varied(wall_s)
    return replace(made, status=seen_by(made.status, ANYBODY), full_status=made.status)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A page on loopback, with a token that people share."""
    with served(hall(varied), tmp_path_factory.mktemp("site"), token=TOKEN) as made:
        yield made


@pytest.fixture(scope="module")
def reachable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A page that takes itself to listen on every address of the machine, with persons too."""
    home, pretend = tmp_path_factory.mktemp("reachable"), Address("0.0.0.0", 8990)
    with served(hall(as_published), home, token=TOKEN, persons=PERSONS, pretend=pretend) as made:
        (home / "claims").chmod(0o1777)
        home.chmod(0o755)
        yield made


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong token is answered at once, except where a test is about that."""
    monkeypatch.setattr(access, "WRONG_TOKEN_S", 0.0)
    monkeypatch.setattr(login, "WRONG_TOKEN_S", 0.0)


def as_(site: Site, token: str, path: str, method: str = "GET", body: object = None) -> Answer:
    return site.ask(path, method, body, {"authorization": f"Bearer {token}"})


def log_in(site: Site, token: str = TOKEN, **headers: str) -> Answer:
    return site.ask("/login", "POST", urlencode({"token": token}), {**FORM, "origin": site.url, **headers})


def cookie(site: Site, token: str = TOKEN) -> dict[str, str]:
    """What a browser has after the form for the token."""
    return {"cookie": log_in(site, token).headers["set-cookie"].partition(";")[0]}


# Of each request: its status on a page that others reach (a stranger, a wrong token, the shared token, a person), and
# on loopback (a stranger, the shared token).
TABLE = {
    ("GET", "/"): (303, 401, 200, 200, 200, 200),
    ("GET", "/gpus/1"): (303, 401, 200, 200, 200, 200),
    ("HEAD", "/stream"): (401, 401, 200, 200, 200, 200),
    ("GET", "/metrics"): (401, 401, 200, 200, 200, 200),
    ("GET", "/report.csv"): (401, 401, 200, 200, 200, 200),
    ("GET", "/api/v1/status"): (401, 401, 200, 200, 200, 200),
    ("GET", "/nothing"): (401, 401, 404, 404, 404, 404),
    ("GET", "/login"): (200, 401, 200, 200, 200, 200),
    ("GET", "/healthz"): (200, 401, 200, 200, 200, 200),
    ("GET", "/static/page.css"): (200, 401, 200, 200, 200, 200),
    ("POST", PROTECTIONS): (401, 401, 422, 422, 401, 422),
    ("DELETE", f"{PROTECTIONS}/none"): (401, 401, 422, 422, 401, 422),
    ("POST", "/protections"): (401, 401, 422, 422, 401, 422),
    ("POST", "/stops"): (401, 401, 403, 422, 401, 403),
    ("POST", "/api/v1/reload"): (401, 401, 403, 403, 403, 403),
    ("POST", "/api/v1/wake"): (401, 401, 403, 403, 403, 403),
}


@pytest.mark.parametrize(("request_", "codes"), TABLE.items(), ids=lambda each: "-".join(map(str, each)))
def test_who_may_ask_for_what(site: Site, reachable: Site, request_: tuple[str, str], codes: tuple[int, ...]) -> None:
    method, path = request_
    body = {"subject": "all"} if path == "/api/v1/wake" else None
    shown = [{}, *({"authorization": f"Bearer {token}"} for token in ("wrong", TOKEN, ADAS))]
    answers = [reachable.ask(path, method, body, headers) for headers in shown]
    answers += [site.ask(path, method, body, headers) for headers in (shown[0], shown[2])]
    assert tuple(answer.status for answer in answers) == codes
    assert all("H100" not in answer.text for answer in answers[:2])


def test_nothing_takes_a_command_and_no_answer_is_a_lever(site: Site) -> None:
    changes = {(route.path, *(route.methods - {"GET", "HEAD"})) for route in site.app.routes}
    protecting = {(PROTECTIONS, "POST"), (f"{PROTECTIONS}/{{number}}", "DELETE")}
    assert {each for each in changes if each[0].startswith("/api/") and len(each) > 1} == {
        *protecting,
        ("/api/v1/reload", "POST"),
        ("/api/v1/wake", "POST"),
    }
    page = site.with_token("/").text
    levers = {part.split('"')[0] for part in page.split('action="')[1:]}
    assert levers <= {"/protections", "/logout", "/protections/4/release"}


def test_without_a_token_in_the_config_nobody_can_do_anything(tmp_path: pathlib.Path) -> None:
    with served(hall(varied), tmp_path) as site:
        for answer in (site.ask(PROTECTIONS, "POST", {}), site.with_token(PROTECTIONS, "POST", {})):
            assert answer.status == 403
        assert site.ask("/stops", "POST", "subject=gpu:0", FORM).status == 403
        assert site.ask("/login").status == 404
        assert "Place a protection" not in site.ask("/").text
        assert "/login" not in site.ask("/").text


def test_a_token_in_an_address_is_none(reachable: Site) -> None:
    for token in (TOKEN, ADAS):
        assert reachable.ask(f"/login?token={token}", "POST", "", {**FORM, "origin": reachable.url}).status == 403
        for key in ("token", "access_token"):
            assert reachable.ask(f"/api/v1/status?{key}={token}", headers={"x-token": token}).status == 401


def test_a_wrong_token_is_answered_late_and_gives_no_cookie(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (access, login):
        monkeypatch.setattr(module, "WRONG_TOKEN_S", 0.2)
    began_s = time.monotonic()
    answer = log_in(site, "x" * 30)
    assert answer.status == 403
    assert "set-cookie" not in answer.headers
    assert 'role="alert"' in answer.text
    assert time.monotonic() - began_s >= 0.2
    assert as_(site, "wrong", "/api/v1/status").status == 401
    assert time.monotonic() - began_s >= 0.4


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8990", "localhost.evil.example", "127.0.0.1.nip.io", "", "."),
        *("localhost:8990@evil.example", "localhost:evil.example", "[::1]evil.example", "[::1]:8990.evil.example"),
    ],
)
def test_a_name_that_was_made_to_point_here_is_not_answered(site: Site, host: str) -> None:
    for path in ("/", "/api/v1/status", "/static/page.js"):
        assert site.ask(path, headers={"host": host}).status == 421


def test_names_of_this_machine_and_of_the_config_are_answered(
    site: Site, reachable: Site, tmp_path: pathlib.Path
) -> None:
    for host in ("localhost", "LOCALHOST:8990", "127.0.0.1:1", "[::1]:8990", "localhost."):
        assert site.ask("/healthz", headers={"host": host}).status == 200
    assert reachable.ask("/healthz", headers={"host": "192.0.2.7:8990"}).status == 200, "it listens on every address"
    assert reachable.ask("/healthz", headers={"host": "evil.example"}).status == 421
    with served(hall(varied), tmp_path, token=TOKEN, hosts=("GPU.lab.example",)) as named:
        assert named.ask("/healthz", headers={"host": "gpu.lab.example:80"}).status == 200
        assert named.ask("/healthz", headers={"host": "lab.example"}).status == 421
        assert named.ask("/api/v1/status").status == 401, "behind a proxy reading needs the token"


def test_a_page_that_others_reach_needs_a_token_and_says_where_it_is_and_who_acts_there() -> None:
    for host, hosts in (("0.0.0.0", ()), ("192.0.2.1", ()), ("::", ()), ("127.0.0.1", ("gpu1.lab",))):
        with pytest.raises(WrongUsage, match="be reached from other machines"):
            checked(Settings(Address(host, 8990), hosts=hosts))
    assert "can be reached from other machines" in said_at_start(Settings(Address("0.0.0.0", 8990), hashed(TOKEN)))
    said = said_at_start(Settings(Address("127.0.0.1", 8990), persons=PERSONS))
    assert (
        "this machine only; ada, bob, root can act there with a token of their own, which for root means as" in said
    )
    assert "as root" not in said_at_start(Settings(Address("127.0.0.1", 8990), persons=PERSONS[:2]))


@pytest.mark.parametrize("path", ["/", "/login", "/static/page.css", "/api/v1/status", "/nothing"])
def test_every_answer_lets_nothing_in_from_elsewhere(site: Site, path: str) -> None:
    headers = site.ask(path).headers
    policy = {part.split()[0]: part.split()[1:] for part in headers["content-security-policy"].split(";")}
    assert policy["default-src"] == policy["frame-ancestors"] == ["'none'"]
    assert {word for words in policy.values() for word in words} == {"'none'", "'self'"}
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("path", [PROTECTIONS, "/login", "/protections"])
def test_a_body_without_end_is_refused(site: Site, path: str) -> None:
    known = {"authorization": f"Bearer {TOKEN}", "origin": site.url}
    assert site.ask(path, "POST", "x" * 9000, known).status == 413
    assert site.ask(path, "POST", iter([b"x" * 10]), {**known, "transfer-encoding": "chunked"}).status == 411


def test_the_form_gives_a_cookie_that_proves_the_token_and_does_not_tell_it(site: Site, reachable: Site) -> None:
    text = log_in(reachable).headers["set-cookie"]
    assert "HttpOnly" in text
    assert "SameSite=strict" in text
    assert "; Secure" not in text
    assert TOKEN not in text
    assert reachable.ask("/", headers={"cookie": text.partition(";")[0]}).status == 200
    name = text.partition("=")[0]
    for word in (TOKEN, ""):
        assert reachable.ask("/", headers={"cookie": f"{name}={word}"}).status == 303
    assert name != log_in(site).headers["set-cookie"].partition("=")[0], "both may be localhost to one browser"
    behind_tls = log_in(site, origin=f"https://{site.address}")
    assert "; Secure" in behind_tls.headers["set-cookie"], "behind a proxy it never travels without TLS"


@pytest.mark.parametrize("token", [TOKEN, ADAS])
def test_another_page_cannot_use_the_cookie(reachable: Site, token: str) -> None:
    known = {**FORM, **cookie(reachable, token)}
    for origin in ("http://localhost:1", "http://evil.example", "null", f"http://x.{reachable.address}", ""):
        told = {**known, "origin": origin} if origin else known
        assert reachable.ask("/protections", "POST", "subject=all&for=1h", told).status == 401
        assert reachable.ask("/login", "POST", f"token={token}", {**FORM, "origin": origin}).status == 403
        assert reachable.ask("/logout", "POST", "", told).status in (401, 403)
    assert as_(reachable, TOKEN, PROTECTIONS).json["protections"] == []


def test_logging_out_ends_ones_own_session_for_every_copy_of_the_cookie(reachable: Site) -> None:
    hers, again, his = cookie(reachable, ADAS), cookie(reachable, ADAS), cookie(reachable, BOBS)
    assert reachable.ask("/logout", "POST", "", {**FORM, **hers, "origin": reachable.url}).status == 303
    assert [reachable.ask("/api/v1/status", headers=each).status for each in (hers, again, his)] == [401, 200, 200]
    assert log_in(reachable, ADAS, **his).status == 303
    assert reachable.ask("/api/v1/status", headers=his).status == 401, "who logs in as another is that one"


@pytest.mark.as_root
def test_a_cookie_that_a_neighbours_server_was_sent_is_worth_nothing_to_her_and_she_ends_no_session(
    site: Site,
) -> None:
    known, wish = {**FORM, **cookie(site), "origin": site.url}, "subject=gpu:1&for=1h"
    with in_the_name_of(NEIGHBOUR, NEIGHBOUR):
        assert site.ask("/protections", "POST", wish, known).status == 401
        assert "Place a protection" not in site.ask("/", headers=known).text
        for path in ("/logout", "/login"):
            assert site.ask(path, "POST", urlencode({"token": TOKEN}), known).status == 303
    assert "Place a protection" in site.ask("/", headers=known).text, "whose session it is goes on"


def test_a_session_is_of_whoever_began_it_and_of_very_many_the_oldest_ends() -> None:
    sessions = Sessions(lambda: 0.0)
    begun = [sessions.begin(Visitor(), "192.0.2.1") for _ in range(1001)]
    assert [sessions.visitor(each, "192.0.2.1") is None for each in begun] == [True] + [False] * 1000
    assert sessions.visitor(begun[-1], "192.0.2.2") is None
    assert sessions.visitor("", "") is None


@WITH_IPV6
def test_who_asks_at_the_other_address_of_localhost_is_known_as_the_same_user(site: Site) -> None:
    other = Site(Address("::1", site.address.port), site.app, site.home)
    assert "Place a protection" in other.ask("/", headers=cookie(site)).text
    assert "Place a protection" not in other.ask("/").text


def commands(answer: Answer) -> set[str]:
    return {holder["command"] for gpu in answer.json["gpus"] for holder in gpu["holders"] or ()}


def test_a_person_reads_their_own_command_lines_and_nobody_elses(reachable: Site) -> None:
    hers = "python train.py --config configs/large.yaml --resume"
    his = "python -m ipykernel_launcher -f kernel-4f1c.json"
    for answer in (
        as_(reachable, ADAS, "/api/v1/status"),
        reachable.ask("/api/v1/status", headers=cookie(reachable, ADAS)),
    ):
        assert commands(answer) & {hers, his} == {hers}
    assert commands(as_(reachable, BOBS, "/api/v1/status")) & {hers, his} == {his}
    assert not commands(as_(reachable, TOKEN, "/api/v1/status")) & {hers, his}, "the shared token is nobody's"
    assert {hers, his} <= commands(as_(reachable, ROOTS, "/api/v1/status"))


@pytest.mark.as_root
def test_a_protection_is_its_persons_and_only_they_release_it(reachable: Site) -> None:
    """With the shared token it is the daemon's user's."""
    for token, by, others in ((ADAS, "54321", (BOBS, TOKEN)), (TOKEN, ME, (ADAS,))):
        made = as_(reachable, token, PROTECTIONS, "POST", {"subject": "gpu:1", "for_s": 60})
        assert (made.status, made.json["by"]) == (201, by)
        address = f"{PROTECTIONS}/{made.json['id']}"
        assert [as_(reachable, other, address, "DELETE").status for other in others] == [403] * len(others)
        assert as_(reachable, token, address, "DELETE").status == 204
    assert as_(reachable, TOKEN, PROTECTIONS).json["protections"] == []


def test_each_page_says_who_you_are_and_offers_what_you_may_do(tmp_path: pathlib.Path) -> None:
    def head_of(answer: Answer) -> str:
        return answer.text.split("<header")[1].split("</header>")[0]

    with served(hall(as_published), tmp_path, token=TOKEN, persons=PERSONS) as made:
        hers, his = cookie(made, ADAS), cookie(made, BOBS)
        for path in ("/", "/gpus/1", "/users/bob", "/gpus/99"):
            assert 'href="/login"' in head_of(made.ask(path)), path
            assert "<strong>ada</strong>" in head_of(made.ask(path, headers=hers))
            assert 'action="/logout"' in head_of(made.ask(path, headers=hers))
            assert "shared token" in head_of(as_(made, TOKEN, path))
        assert 'action="/protections/3/release"' in made.ask("/", headers=his).text
        assert "/protections/4/release" not in made.ask("/", headers=his).text, "that is root's"
        assert "/release" not in made.ask("/", headers=hers).text + made.ask("/").text


def test_who_protects_again_what_they_protect_has_one_protection_and_none_becomes_shorter(
    tmp_path: pathlib.Path,
) -> None:
    with served(hall(as_published), tmp_path, token=TOKEN) as made:
        headers = {**FORM, **cookie(made), "origin": made.url}
        for wish in ("gpu:1&for=8h&why=first", "gpu:1&for=8h&why=second", "gpu:2&for=1h&why=other"):
            assert made.ask("/protections", "POST", f"subject={wish}", headers).status == 303
        assert sorted(each["why"] for each in made.ask(PROTECTIONS).json["protections"]) == ["other", "second"]
        assert made.ask("/protections", "POST", "subject=gpu:1&for=1h&why=short", headers).status == 303
        found = made.ask(PROTECTIONS).json["protections"]
        assert sorted(each["why"] for each in found) == ["other", "second", "short"]


def test_after_a_form_a_person_is_where_they_were_and_never_elsewhere(tmp_path: pathlib.Path) -> None:
    with served(hall(as_published), tmp_path, token=TOKEN) as made:
        headers = {**FORM, **cookie(made), "origin": made.url}

        def leads_to(path: str, body: str, referer: str = "") -> str:
            answer = made.ask(path, "POST", body, {**headers, "referer": referer})
            assert answer.status == 303
            return str(answer.headers["location"])

        body = "subject=all&for=1h"
        assert leads_to("/protections", body, f"{made.url}/?show=idle&span=7d") == "/?show=idle&span=7d"
        for referer in ("http://evil.example/?show=idle", f"{made.url}/report.html"):
            assert leads_to("/protections", body, referer) == "/"
        (protection,) = made.ask(PROTECTIONS).json["protections"]
        assert leads_to(f"/protections/{protection['id']}/release", "", f"{made.url}/gpus/1") == "/gpus/1"
        assert made.ask(PROTECTIONS).json["protections"] == []
        form = made.ask("/login", headers={"referer": f"{made.url}/users/bob?span=7d"}).text
        assert 'name="back" value="/users/bob?span=7d"' in form
        for back in ("//evil.example/", "http://evil.example/", "/\\evil.example", "javascript:alert(1)", "/x"):
            assert leads_to("/login", urlencode({"token": TOKEN, "back": back})) == "/", back


def test_a_token_that_is_not_there_is_made_for_its_owner_alone(tmp_path: pathlib.Path) -> None:
    path, told = tmp_path / "token", list[str]()
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
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FallowError):
        token_in(str(tmp_path / "link"), print)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("content", "mode", "owner", "says"),
    [
        (TOKEN, 0o640, 0, "others can read the token"),
        (TOKEN, 0o604, 0, "others can read the token"),
        (TOKEN, 0o600, 12345, "belongs to another user"),
        ("", 0o600, 0, None),
        ("short", 0o600, 0, None),
        ("two words that are long enough", 0o600, 0, None),
        ("ünïcödé-token-long-enough", 0o600, 0, None),
    ],
)
@pytest.mark.as_root
def test_a_token_that_others_know_or_that_is_none_is_refused(
    tmp_path: pathlib.Path, content: str, mode: int, owner: int, says: str | None
) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    path.chmod(mode)
    os.chown(path, owner, owner)
    with pytest.raises(NotPermitted if says else WrongUsage, match=says):
        token_in(str(path), print)


def test_the_config_opens_the_page_which_knows_that_a_token_was_changed_or_taken_away(
    tmp_path: pathlib.Path,
) -> None:
    file, shared, told = tmp_path / "token", tmp_path / "shared", list[str]()
    file.write_text(ADAS)
    file.chmod(0o600)
    me = pwd.getpwuid(os.geteuid()).pw_name
    config = {"listen": "127.0.0.1:0", "token_file": str(shared), "person": [{"user": me, "token_file": str(file)}]}
    server = open_page(PlainTextResponse(""), Page.model_validate(config), SystemClock(), told.append)
    assert server is not None
    for listening in server._listening:
        listening.close()
    assert stat.S_IMODE(shared.stat().st_mode) == 0o600
    assert "this machine only" in told[-1]
    assert not server.has_old_tokens()
    file.write_text(BOBS)
    assert server.has_old_tokens()
    file.unlink()
    assert server.has_old_tokens()
    file.write_text(ADAS)
    file.chmod(0o600)
    assert not server.has_old_tokens()
    shared.unlink()
    assert server.has_old_tokens()
    disabled = Page.model_validate({"enabled": False})
    assert open_page(PlainTextResponse(""), disabled, SystemClock(), told.append) is None


@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("localhost", marks=WITH_IPV6)])
def test_nobody_else_can_listen_where_the_name_localhost_leads_to(host: str) -> None:
    ours = listen(Address(host, 0))
    try:
        port = bound(Address(host, 0), ours).port
        for name in ("127.0.0.1", "::1") if len(ours) > 1 else ("127.0.0.1",):
            with pytest.raises(FallowError, match=r"another program listens on .*give no token"):
                listen(Address(name, port))
            socket.create_connection((name, port), LIMIT_S).close()
    finally:
        for each in ours:
            each.close()


@WITH_IPV6
@pytest.mark.parametrize("host", ["localhost", "0.0.0.0"])
def test_where_a_neighbour_listens_at_the_other_address_of_localhost_there_is_no_page(host: str) -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as theirs:
        port = theirs.getsockname()[1]
        with pytest.raises(FallowError, match=rf"another program listens on \[::1\]:{port}, .*give no token"):
            listen(Address(host, port))
