"""Each person has a token of their own: what they see and do with it is theirs, and nobody else's."""

import os
import pathlib
import pwd
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from starlette.responses import PlainTextResponse

from fallow.core.account import Account
from fallow.core.board import Board
from fallow.core.value import replace
from fallow.core.visibility import ANYBODY, seen_by
from fallow.engine.config.listen_address import Address
from fallow.engine.config.model import Page
from fallow.engine.config.persons import KnownPerson
from fallow.engine.machine.clock import SystemClock
from fallow.interfaces.web.compose import open_page
from fallow.interfaces.web.settings import Settings, said_at_start
from fallow.readers.token_file import hashed
from tests.interfaces.web.boards import varied
from tests.interfaces.web.served import TOKEN, Answer, Site, hall, served
from tests.places import ME

FORM = {"content-type": "application/x-www-form-urlencoded"}
ADAS, BOBS, ROOTS = "the-token-of-ada-alone", "the-token-of-bob-alone", "the-token-of-root-alone"


def person(name: str, uid: int, token: str) -> KnownPerson:
    return KnownPerson(Account(name, uid, uid, "/", "/bin/sh"), hashed(token))


PERSONS = (person("ada", 54321, ADAS), person("bob", 54322, BOBS), person("root", 0, ROOTS))


def as_published(wall_s: float) -> Board:
    """A board as the daemon publishes it: with whole command lines apart."""
    made = varied(wall_s)
    return replace(made, status=seen_by(made.status, ANYBODY), full_status=made.status)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A page that takes itself to be reachable, with a token that people share, and three persons."""
    home = tmp_path_factory.mktemp("persons")
    pretend = Address("0.0.0.0", 8990)
    with served(hall(as_published), home, token=TOKEN, persons=PERSONS, pretend=pretend) as made:
        (home / "claims").chmod(0o1777)
        home.chmod(0o755)
        yield made


def as_(site: Site, token: str, path: str, method: str = "GET", body: object = None) -> Answer:
    return site.ask(path, method, body, {"authorization": f"Bearer {token}"})


def cookie(site: Site, token: str) -> dict[str, str]:
    answer = site.ask("/login", "POST", urlencode({"token": token}), {**FORM, "origin": site.url})
    assert answer.status == 303
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


def commands(answer: Answer) -> set[str]:
    return {holder["command"] for gpu in answer.json["gpus"] for holder in gpu["holders"] or ()}


def test_a_person_reads_their_own_command_lines_and_nobody_elses(site: Site) -> None:
    hers, his = (
        "python train.py --config configs/large.yaml --resume",
        "python -m ipykernel_launcher -f kernel-4f1c.json",
    )
    for answer in (as_(site, ADAS, "/api/v1/status"), site.ask("/api/v1/status", headers=cookie(site, ADAS))):
        assert hers in commands(answer)
        assert his not in commands(answer)
    assert his in commands(as_(site, BOBS, "/api/v1/status"))
    assert not {hers, his} & commands(as_(site, TOKEN, "/api/v1/status")), "the shared token is nobody's"
    assert {hers, his} <= commands(as_(site, ROOTS, "/api/v1/status"))


def test_a_token_in_an_address_is_none(site: Site) -> None:
    for token in (TOKEN, ADAS):
        assert site.ask(f"/?token={token}").status == 303
        assert site.ask(f"/login?token={token}", "POST", "", {**FORM, "origin": site.url}).status == 403
        assert site.ask(f"/api/v1/status?token={token}").status == 401
        assert site.ask(f"/api/v1/status?access_token={token}", headers={"x-token": token}).status == 401


@pytest.mark.as_root
def test_a_protection_is_its_persons_and_only_they_release_it(site: Site) -> None:
    made = as_(site, ADAS, "/api/v1/protections", "POST", {"subject": "gpu:1", "for_s": 60})
    assert made.status == 201
    number = made.json["id"]
    assert (site.home / "claims" / f"protection-{number}").stat().st_uid == 54321
    for other in (BOBS, TOKEN):
        assert as_(site, other, f"/api/v1/protections/{number}", "DELETE").status == 403
    assert as_(site, ADAS, f"/api/v1/protections/{number}", "DELETE").status == 204


@pytest.mark.as_root
def test_the_shared_token_protects_in_the_name_of_the_daemons_user_as_before(site: Site) -> None:
    made = as_(site, TOKEN, "/api/v1/protections", "POST", {"subject": "gpu:1", "for_s": 60})
    assert made.json["by"] == ME
    assert as_(site, ADAS, f"/api/v1/protections/{made.json['id']}", "DELETE").status == 403
    assert as_(site, TOKEN, f"/api/v1/protections/{made.json['id']}", "DELETE").status == 204


def test_what_is_for_the_socket_alone_stays_so_for_root_too(site: Site) -> None:
    for token in (ADAS, ROOTS):
        assert as_(site, token, "/api/v1/reload", "POST").status == 403
        assert as_(site, token, "/api/v1/wake", "POST", {"subject": "all"}).status == 403


def test_another_page_cannot_use_the_cookie_of_a_person(site: Site) -> None:
    known = {**FORM, **cookie(site, ADAS)}
    for origin in ("http://localhost:1", "http://evil.example", "null", ""):
        told = {**known, "origin": origin} if origin else known
        assert site.ask("/protections", "POST", "subject=all&for=1h", told).status == 401
    assert as_(site, TOKEN, "/api/v1/protections").json["protections"] == []


def test_who_logs_out_or_logs_in_as_another_ends_their_own_session_alone(site: Site) -> None:
    hers, his = cookie(site, ADAS), cookie(site, BOBS)
    headers = {**FORM, **hers, "origin": site.url}
    assert site.ask("/logout", "POST", "", headers).status == 303
    assert site.ask("/api/v1/status", headers=hers).status == 401
    assert site.ask("/api/v1/status", headers=his).status == 200
    other = {**FORM, **his, "origin": site.url}
    assert site.ask("/login", "POST", urlencode({"token": ADAS}), other).status == 303
    assert site.ask("/api/v1/status", headers=his).status == 401


def test_who_is_root_on_the_page_is_said_at_the_start() -> None:
    said = said_at_start(Settings(Address("127.0.0.1", 8990), persons=PERSONS))
    assert "ada, bob, root can act there" in said
    assert "as root" in said
    assert "as root" not in said_at_start(Settings(Address("127.0.0.1", 8990), persons=PERSONS[:2]))


def test_a_page_knows_that_a_token_was_changed_or_taken_away(tmp_path: pathlib.Path) -> None:
    file, shared = tmp_path / "token", tmp_path / "shared"
    file.write_text(ADAS)
    file.chmod(0o600)
    me = pwd.getpwuid(os.geteuid()).pw_name
    said = {"listen": "127.0.0.1:0", "token_file": str(shared), "person": [{"user": me, "token_file": str(file)}]}
    server = open_page(PlainTextResponse(""), Page.model_validate(said), SystemClock(), print)
    assert server is not None
    for listening in server._listening:
        listening.close()
    assert not server.has_old_tokens()
    file.write_text(BOBS)
    assert server.has_old_tokens()
    file.write_text(ADAS)
    assert not server.has_old_tokens()
    file.unlink()
    assert server.has_old_tokens()
    file.write_text(ADAS)
    file.chmod(0o600)
    shared.unlink()
    assert server.has_old_tokens()


def head_of(answer: Answer) -> str:
    return answer.text.split("<header")[1].split("</header>")[0]


def test_each_page_says_who_you_are_and_how_to_log_in_and_out(tmp_path: pathlib.Path) -> None:
    with served(hall(as_published), tmp_path, token=TOKEN, persons=PERSONS) as open_site:
        for path in ("/", "/gpus/1", "/users/bob", "/gpus/99"):
            assert 'href="/login"' in head_of(open_site.ask(path)), path
            hers = head_of(open_site.ask(path, headers=cookie(open_site, ADAS)))
            assert "<strong>ada</strong>" in hers
            assert 'action="/logout"' in hers
            assert "shared token" in head_of(as_(open_site, TOKEN, path))
    with served(hall(as_published), tmp_path / "without") as without:
        assert "/login" not in without.ask("/").text, "there is no token to log in with"


def test_a_person_can_release_on_the_page_what_is_theirs_and_nothing_else(tmp_path: pathlib.Path) -> None:
    with served(hall(as_published), tmp_path, token=TOKEN, persons=PERSONS) as site:
        his, hers = (site.ask("/", headers=cookie(site, token)).text for token in (BOBS, ADAS))
        assert 'action="/protections/3/release"' in his
        assert "/protections/4/release" not in his, "that is root's"
        assert "/release" not in hers
        assert 'data-own="bob"' in his


def test_who_protects_again_what_they_protect_has_one_protection_and_none_becomes_shorter(
    tmp_path: pathlib.Path,
) -> None:
    with served(hall(as_published), tmp_path, token=TOKEN) as site:
        headers = {**FORM, **cookie(site, TOKEN), "origin": site.url}
        for why in ("first", "second"):
            assert site.ask("/protections", "POST", f"subject=gpu:1&for=8h&why={why}", headers).status == 303
        assert site.ask("/protections", "POST", "subject=gpu:2&for=1h&why=other", headers).status == 303
        found = site.ask("/api/v1/protections").json["protections"]
        assert sorted(each["why"] for each in found) == ["other", "second"]
        assert site.ask("/protections", "POST", "subject=gpu:1&for=1h&why=short", headers).status == 303
        found = site.ask("/api/v1/protections").json["protections"]
        assert sorted(each["why"] for each in found) == ["other", "second", "short"]


def test_after_a_form_a_person_is_where_they_were(tmp_path: pathlib.Path) -> None:
    with served(hall(as_published), tmp_path, token=TOKEN) as site:
        headers = {**FORM, **cookie(site, TOKEN), "origin": site.url}

        def sent(path: str, body: str, referer: str) -> str:
            answer = site.ask(path, "POST", body, {**headers, "referer": referer})
            assert answer.status == 303
            return str(answer.headers["location"])

        body = "subject=all&for=1h"
        assert sent("/protections", body, f"{site.url}/?show=idle&span=7d") == "/?show=idle&span=7d"
        assert sent("/protections", body, f"{site.url}/gpus/1") == "/gpus/1"
        assert sent("/protections", body, "http://evil.example/?show=idle") == "/"
        assert sent("/protections", body, f"{site.url}/report.html") == "/"
        (protection,) = site.ask("/api/v1/protections").json["protections"]  # not one for each time
        assert sent(f"/protections/{protection['id']}/release", "", f"{site.url}/?show=idle") == "/?show=idle"
        assert site.ask("/api/v1/protections").json["protections"] == []
        form = site.ask("/login", headers={"referer": f"{site.url}/users/bob?span=7d"}).text
        assert 'name="back" value="/users/bob?span=7d"' in form
        told = urlencode({"token": TOKEN, "back": "/users/bob?span=7d"})
        assert sent("/login", told, "") == "/users/bob?span=7d"
        for elsewhere in ("//evil.example/", "http://evil.example/", "/\\evil.example", "javascript:alert(1)", "/x"):
            told = urlencode({"token": TOKEN, "back": elsewhere})
            headers = {**FORM, "origin": site.url}
            assert sent("/login", told, "") == "/", elsewhere
