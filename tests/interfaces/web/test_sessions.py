"""Who has taken a cookie or shows wrong tokens, as another user of the machine, gains nothing, and blocks nobody."""

import asyncio
import http.client
import pathlib
import socket
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from fallow.actuators.host.as_user import in_the_name_of
from fallow.interfaces.web.connection_limit import neighbourhood, user
from fallow.interfaces.web.sessions import Sessions
from fallow.interfaces.web.settings import Visitor
from fallow.interfaces.web.wrong_tokens import WrongTokens
from tests.interfaces.web.boards import varied
from tests.interfaces.web.served import TOKEN, Answer, Site, hall, served
from tests.places import LIMIT_S

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


@pytest.mark.as_root
def test_wrong_tokens_of_a_neighbour_keep_nobody_else_from_the_page(site: Site) -> None:
    for number in range(60):
        assert as_neighbour(site, PROTECT, authorization=f"Bearer wrong-{number}").status == 401
    assert as_neighbour(site, PROTECT, authorization=f"Bearer {TOKEN}").status == 429
    assert site.with_token(PROTECT).status == 200
    logged_in = site.ask("/login", "POST", urlencode({"token": TOKEN}), {**FORM, "origin": site.url})
    assert logged_in.status == 303


def test_however_many_users_and_addresses_show_wrong_tokens_nobody_else_has_to_wait() -> None:
    """Who has a range of subordinate users, as for containers without root, is 65,536 users to the kernel."""

    async def crowd() -> None:
        wrong = WrongTokens(lambda _: None)
        many = [user(100_000 + number) for number in range(300)] + [f"198.51.100.{number}" for number in range(300)]
        for owner in many * 61:
            wrong.count(owner)
        assert all(map(wrong.too_many_from, many))
        assert not any(map(wrong.too_many_from, (user(0), user(1000), "192.0.2.1")))
        for number in range(70_000):
            wrong.count(f"2001:db8:{number >> 16:x}:{number & 0xFFFF:x}::/64")
        assert not any(map(wrong.too_many_from, (user(0), user(1000)))), "more addresses than any host has"

    asyncio.run(crowd())


def test_a_session_is_of_whoever_began_it() -> None:
    sessions = Sessions(lambda: 0.0)
    cookie = sessions.begin(Visitor(), "192.0.2.1")
    assert sessions.visitor(cookie, "192.0.2.1") == Visitor()
    assert sessions.visitor(cookie, "192.0.2.2") is None
    assert sessions.visitor("", "") is None


def test_who_logs_in_without_end_with_the_shared_token_ends_nobody_elses_session() -> None:
    sessions = Sessions(lambda: 0.0)
    cookie = sessions.begin(Visitor(), user(1000))
    theirs = [sessions.begin(Visitor(), user(NEIGHBOUR)) for _ in range(150)]
    assert sessions.visitor(cookie, user(1000)) == Visitor()
    assert sum(sessions.visitor(each, user(NEIGHBOUR)) is not None for each in theirs) < 100
    assert sessions.visitor(theirs[-1], user(NEIGHBOUR)) == Visitor()


def test_a_crowd_that_logs_in_with_the_shared_token_ends_nobodys_older_session() -> None:
    """Who has a range of subordinate users can log in as each of them."""
    sessions = Sessions(lambda: 0.0)
    older = {user(uid): sessions.begin(Visitor(), user(uid)) for uid in range(1000, 1010)}
    crowd = {user(100_000 + uid): sessions.begin(Visitor(), user(100_000 + uid)) for uid in range(300)}
    assert all(sessions.visitor(cookie, owner) is not None for owner, cookie in older.items())
    still = [owner for owner, cookie in crowd.items() if sessions.visitor(cookie, owner) is not None]
    assert len(still) == 90, "no more than a hundred at once, those of the others among them"
    assert still[-1] == user(100_299), "who comes last gets in, instead of who came just before"
    again = sessions.begin(Visitor(), user(1000))
    assert sessions.visitor(older[user(1000)], user(1000)) is None, "who has one already ends their own"
    assert sessions.visitor(again, user(1000)) == Visitor()


@pytest.mark.as_root
def test_a_user_of_this_machine_is_known_from_whichever_of_its_addresses_they_ask(site: Site) -> None:
    """Who binds another address of the machine before they connect would count as a host of the network besides."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way_out:
        try:
            way_out.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address besides loopback")
        source = (way_out.getsockname()[0], 0)
    for number in range(60):
        assert as_neighbour(site, PROTECT, authorization=f"Bearer wrong-{number}").status == 401
    with in_the_name_of(NEIGHBOUR, NEIGHBOUR):
        connection = http.client.HTTPConnection("127.0.0.1", site.address.port, LIMIT_S, source_address=source)
        connection.request("GET", PROTECT, headers={"authorization": f"Bearer {TOKEN}"})
        status = connection.getresponse().status
        connection.close()
    assert status == 429


def test_where_one_socket_listens_for_both_kinds_of_addresses_each_counts_for_itself() -> None:
    assert neighbourhood("::ffff:192.0.2.1") == neighbourhood("192.0.2.1") != neighbourhood("::ffff:192.0.2.2")
    assert neighbourhood("::ffff:127.0.0.1") == neighbourhood("::1") == neighbourhood("127.0.0.1")
