"""A cookie is worth something only for the user, or the address, that logged in."""

import pathlib
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from fallow.actuators.host.as_user import in_the_name_of
from fallow.interfaces.web.sessions import Sessions
from fallow.interfaces.web.settings import Visitor
from tests.interfaces.web.boards import varied
from tests.interfaces.web.served import TOKEN, Answer, Site, hall, served

pytestmark = pytest.mark.more

FORM = {"content-type": "application/x-www-form-urlencoded"}
NEIGHBOUR = 54329
PROTECT = "/api/v1/protections"


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Iterator[Site]:
    """A page on loopback, with a token."""
    with served(hall(varied), tmp_path, token=TOKEN) as made:
        yield made


def as_neighbour(site: Site, path: str, method: str = "GET", body: object = None, **headers: str) -> Answer:
    """Ask through a connection that the kernel says is the neighbour's."""
    with in_the_name_of(NEIGHBOUR, NEIGHBOUR):
        return site.ask(path, method, body, headers)


@pytest.mark.as_root
def test_a_cookie_that_a_neighbours_server_was_sent_is_worth_nothing_to_her(site: Site) -> None:
    answer = site.ask("/login", "POST", urlencode({"token": TOKEN}), {**FORM, "origin": site.url})
    known = {"cookie": answer.headers["set-cookie"].partition(";")[0], "origin": site.url}
    wish = {"subject": "gpu:1", "for_s": 60}
    assert as_neighbour(site, PROTECT, "POST", wish, **known).status == 401
    assert "Place a protection" not in as_neighbour(site, "/", **known).text
    assert site.ask(PROTECT, "POST", wish, known).status == 201, "whose session it is goes on"


@pytest.mark.as_root
@pytest.mark.parametrize("path", ["/logout", "/login"])
def test_a_neighbour_with_a_copy_of_a_cookie_ends_nobodys_session(site: Site, path: str) -> None:
    answer = site.ask("/login", "POST", urlencode({"token": TOKEN}), {**FORM, "origin": site.url})
    known = {"cookie": answer.headers["set-cookie"].partition(";")[0], "origin": site.url}
    assert as_neighbour(site, path, "POST", urlencode({"token": TOKEN}), **FORM, **known).status == 303
    assert "Place a protection" in site.ask("/", headers=known).text
    assert site.ask(path, "POST", urlencode({"token": TOKEN}), {**FORM, **known}).status == 303
    assert "Place a protection" not in site.ask("/", headers=known).text, "who began it ends it for every copy"


def test_a_session_is_of_whoever_began_it() -> None:
    sessions = Sessions(lambda: 0.0)
    cookie = sessions.begin(Visitor(), "192.0.2.1")
    assert sessions.visitor(cookie, "192.0.2.1") == Visitor()
    assert sessions.visitor(cookie, "192.0.2.2") is None
    assert sessions.visitor("", "") is None


def test_of_very_many_sessions_the_oldest_ends() -> None:
    sessions = Sessions(lambda: 0.0)
    begun = [sessions.begin(Visitor(), "192.0.2.1") for _ in range(1001)]
    assert [sessions.visitor(each, "192.0.2.1") is None for each in begun] == [True] + [False] * 1000


def test_a_cookie_means_nothing_after_logging_out_whoever_has_a_copy(site: Site) -> None:
    def login() -> dict[str, str]:
        answer = site.ask("/login", "POST", urlencode({"token": TOKEN}), {**FORM, "origin": site.url})
        return {"cookie": answer.headers["set-cookie"].partition(";")[0]}

    mine, other = login(), login()
    assert mine != other
    assert "Place a protection" in site.ask("/", headers=mine).text
    site.ask("/logout", "POST", headers={"origin": site.url, **mine})
    assert "Place a protection" not in site.ask("/", headers=mine).text
    assert "Place a protection" in site.ask("/", headers=other).text, "another browser stays logged in"
