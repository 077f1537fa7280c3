"""Who comes to the page in numbers, says nothing, never ends, or goes away: nobody else notices, and no log grows."""

import asyncio
import gc
import http.client
import json
import logging
import pathlib
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.core.value import replace
from fallow.interfaces.web.connection_limit import ConnectionLimits, Connections, neighbourhood, user
from fallow.interfaces.web.server import page_limits
from fallow.readers.socket_users import user_of
from tests.interfaces.web.boards import varied
from tests.interfaces.web.served import NEVER_S, TOKEN, Site, built, hall, served
from tests.places import LIMIT_S

pytestmark = pytest.mark.more

QUICK = ConnectionLimits(connections=40, of_address=10, of_user=40, request_s=0.3, answer_s=5.0)


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Iterator[Site]:
    with served(hall(varied), tmp_path, token=TOKEN, limits=QUICK) as made:
        yield made


@contextmanager
def connected(site: Site, source: str = "127.0.0.1") -> Iterator[socket.socket]:
    address = (site.address.host, site.address.port)
    with socket.create_connection(address, LIMIT_S, (source, 0)) as made:
        yield made


def is_ended(connection: socket.socket) -> bool:
    """Whether the page hangs up, within the time of a test."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        return True
    return True


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nhost: localhost\r\n",
        b"POST /login HTTP/1.1\r\nhost: localhost\r\norigin: http://localhost\r\ncontent-length: 50\r\n\r\ntoken=x",
    ],
    ids=["nothing", "half a line", "half a head", "half a body"],
)
def test_who_owes_a_request_is_cut_off_in_time_and_no_line_is_logged(
    site: Site, caplog: pytest.LogCaptureFixture, said: bytes
) -> None:
    """V12"""
    with connected(site) as connection:
        connection.sendall(said)
        assert is_ended(connection)
    assert site.ask("/healthz").status == 200
    assert caplog.records == []


HEAD = b"HTTP/1.1\r\nhost: localhost\r\n"


@pytest.mark.parametrize(
    "said",
    [
        b"GET /healthz " + HEAD + b"connection: close\r\n\r\n",
        b"GET /api/v1/status " + HEAD + b"connection: close\r\nauthorization: Bearer wrong\r\n\r\n",
        b"nonsense\r\n\r\n",
    ],
    ids=["answered", "refused", "not HTTP"],
)
def test_who_asks_without_pause_waits_whatever_they_ask(tmp_path: pathlib.Path, said: bytes) -> None:
    """Ten at once, and then ten a second."""
    limits = replace(QUICK, asks_per_s=10.0, request_s=LIMIT_S)
    with served(hall(varied), tmp_path, token=TOKEN, limits=limits) as site:
        began_s = time.monotonic()
        for _ in range(20):
            with connected(site) as connection:
                connection.sendall(said)
                assert connection.recv(1) == b"H"
        assert time.monotonic() - began_s > 0.9


def test_requests_that_come_in_one_piece_are_counted_one_by_one(tmp_path: pathlib.Path) -> None:
    limits = replace(QUICK, asks_per_s=10.0, request_s=LIMIT_S)
    with served(hall(varied), tmp_path, limits=limits) as site, connected(site) as connection:
        began_s = time.monotonic()
        last = b"GET /healthz " + HEAD + b"connection: close\r\n\r\n"
        connection.sendall(b"".join([b"GET /healthz " + HEAD + b"\r\n"] * 19) + last)
        with connection.makefile("rb") as answers:
            assert answers.read().count(b"HTTP/1.1 200") == 20
        assert time.monotonic() - began_s > 0.9


def test_a_turn_is_never_far_ahead_and_nobody_waits_for_the_turn_of_another() -> None:
    connections = Connections(replace(QUICK, connections=40, asks_per_s=40.0))
    waits = [connections.seconds_to_turn(user(1), 100.0) for _ in range(1000)]
    assert max(waits[:40]) <= 1e-9, "as many as in a second come at once"
    assert waits == sorted(waits)
    assert max(waits) == pytest.approx(1.0), "as long as 40 connections take, not 1000"
    assert all(connections.seconds_to_turn(f"10.0.0.{each}", 100.0) < 0 for each in range(200))
    assert connections.seconds_to_turn(user(1), 102.0) < 0, "who pauses is in time again"


TALK = """
import os, socket, sys
host, port, uid, count = sys.argv[1], *map(int, sys.argv[2:])
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
kept = []
for _ in range(count):
    made = socket.socket()
    made.settimeout(30)
    try:
        made.connect((host, port))
        made.sendall(f"GET /stream HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n".encode())
        made.recv(1)
    except ConnectionError:
        continue
    kept.append(made)
print("they talk", flush=True)
sys.stdin.read()
"""


@pytest.mark.as_root
def test_a_crowd_of_one_user_that_talks_leaves_places_to_others(tmp_path: pathlib.Path) -> None:
    """The address is that of everybody on the machine; the kernel tells whose each connection is."""
    limits = replace(QUICK, of_user=30)
    with served(hall(varied), tmp_path, limits=limits) as site:
        words = [sys.executable, "-c", TALK, site.address.host, *map(str, (site.address.port, 61001, 60))]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as crowd:
            assert crowd.stdout is not None
            assert crowd.stdout.readline() == "they talk\n"
            try:
                assert site.ask("/").status == 200
            finally:
                crowd.kill()


@pytest.mark.as_root
def test_whose_a_connection_is_the_kernel_tells_until_it_is_closed() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        host, port = listening.getsockname()
        words = [sys.executable, "-c", TALK, host, str(port), "61001", "1"]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as crowd:
            connection, _ = listening.accept()
            with connection:
                assert user_of(connection) == 61001
                crowd.kill()
                while connection.recv(4096):
                    pass
                assert user_of(connection) is None


@pytest.mark.parametrize("reset", [False, True])
def test_who_hangs_up_before_they_are_let_in_is_nobody_and_what_they_asked_is_not_read(
    tmp_path: pathlib.Path, reset: bool
) -> None:
    """Their user is not known any more; a neighbour could use up the share of all whose user is not known."""
    told, answers = list[str](), list[int]()
    with built(hall(varied), tmp_path, token=TOKEN, tell=told.append) as page:
        site = Site(page.address, page.app, tmp_path)
        for _ in range(3):
            with connected(site) as connection:
                connection.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer wrong\r\n\r\n")
                if reset:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        def ask_and_end() -> None:
            answers.append(site.ask("/healthz").status)
            page.server.stop()

        asker = threading.Thread(target=ask_and_end)
        asyncio.run(page.run(asker.start))
        asker.join(LIMIT_S)
    assert (answers, told) == ([200], [])


def test_who_ends_the_half_by_which_they_send_is_answered(site: Site) -> None:
    with connected(site) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")


def test_a_byte_now_and_then_does_not_buy_more_time(site: Site) -> None:
    """V12"""
    with connected(site) as connection:
        began_s = time.monotonic()
        try:
            for letter in b"GET / HTTP/1.1\r\nx-slow: " + b"a" * 10_000:
                connection.sendall(bytes([letter]))
                connection.settimeout(0.02)
                try:
                    if connection.recv(1) == b"":
                        break
                except TimeoutError:
                    continue
        except (ConnectionResetError, BrokenPipeError):
            pass
        assert time.monotonic() - began_s < LIMIT_S / 2


def test_who_comes_in_the_moment_in_which_the_page_ends_is_hung_up_on(tmp_path: pathlib.Path) -> None:
    with built(hall(varied), tmp_path) as page, socket.socket() as late, nothing_is_tidied_up():
        late.settimeout(LIMIT_S)

        def comes_and_it_ends() -> None:
            late.connect((page.address.host, page.address.port))
            page.server.stop()

        asyncio.run(page.run(comes_and_it_ends))
        assert is_ended(late)


@contextmanager
def nothing_is_tidied_up() -> Iterator[None]:
    """Python's collector would hang up on whom everybody forgot, some day."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_ten_seconds_are_what_a_request_may_take() -> None:
    """V12"""
    assert page_limits().request_s == 10.0


def test_who_goes_away_in_the_middle_of_a_body_leaves_no_traceback(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """V12"""
    head = f"POST /protections HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n"
    head += "content-length: 90\r\n\r\n"
    for _ in range(5):
        with connected(site) as connection:
            connection.sendall(head.encode() + b"subject=all")
    assert site.ask("/healthz").status == 200
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_crowd_that_says_nothing_shuts_nobody_out(tmp_path: pathlib.Path) -> None:
    """V12: 512 silent connections, none of which ends for its silence alone"""
    with served(hall(varied), tmp_path, limits=replace(QUICK, request_s=NEVER_S)) as site, ExitStack() as stack:
        for number in range(512):
            stack.enter_context(connected(site, f"127.0.{number % 7}.{1 + number % 200}"))
            if number % 64 == 0:
                assert site.ask("/healthz").status == 200
        for path in ("/", "/metrics", "/healthz", "/api/v1/status"):
            assert site.ask(path).status == 200


def test_those_who_watch_are_not_cut_off_by_the_limit_on_answers(tmp_path: pathlib.Path) -> None:
    short = ConnectionLimits(connections=40, of_address=10, of_user=40, request_s=0.2, answer_s=0.2)
    halls = hall(varied)
    with served(halls, tmp_path, limits=short) as made, connected(made) as watching:
        watching.sendall(b"GET /stream HTTP/1.1\r\nhost: localhost\r\n\r\n")
        stream = watching.makefile("rb")
        lines = [stream.readline() for _ in range(3)]
        assert b"200" in lines[0]
        with connected(made) as other:
            assert is_ended(other), "by now the limit has passed twice"
        assert made.ask("/healthz").status == 200
        watching.settimeout(0.1)
        with suppress(TimeoutError):
            assert watching.recv(1, socket.MSG_PEEK) != b"", "it is still there"


class Visitor:
    """One in the crowd."""

    lasts = False

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.is_cut = False

    def cut(self) -> None:
        self.is_cut = True


OWNERS = ["127.0.0.1", "user 5", "192.0.2.1", "192.0.2.2"]
STEPS = st.lists(
    st.tuples(st.sampled_from(["enter", "asks", "silent", "leave"]), st.integers(0, 30), st.integers(0, 3)),
    max_size=80,
)


@given(STEPS)
def test_there_are_never_more_than_there_may_be_and_who_has_asked_ends_only_for_somebody_with_fewer(
    steps: list[tuple[str, int, int]],
) -> None:
    """F35, V12"""
    limits = ConnectionLimits(connections=6, of_address=3, of_user=4)
    asked = set[Visitor]()
    crowd, inside = Connections(limits), list[Visitor]()
    for what, which, where in steps:
        one = inside[which % len(inside)] if inside else None
        before = {owner: sum(visitor.owner == owner for visitor in inside) for owner in OWNERS}
        new: Visitor | None = None
        if what == "enter":
            new = Visitor(OWNERS[where])
            crowd.enter(new)
            inside.append(new)
        elif one is not None and what == "leave":
            crowd.leave(one)
            inside.remove(one)
            asked.discard(one)
        elif one is not None:
            crowd.change(one, silent=what == "silent")
            (asked.add if what == "asks" else asked.discard)(one)
        ended = [visitor for visitor in inside if visitor.is_cut]
        for gone in ended:
            if gone in asked:
                assert new is not None
                assert before[gone.owner] > before[new.owner] + 1, "one with most gives one up"
                assert not any(each.owner == gone.owner and each not in asked for each in inside), "the silent first"
        assert len(ended) <= 1
        inside = [visitor for visitor in inside if not visitor.is_cut]
        assert len(crowd) == len(inside) <= limits.connections
        assert all(sum(visitor.owner == owner for visitor in inside) <= 3 for owner in OWNERS[2:])
        assert sum(visitor.owner == OWNERS[1] for visitor in inside) <= 4


def test_a_person_with_many_user_numbers_shuts_nobody_with_an_account_out() -> None:
    """subuid(5) gives each user 65,536 of them: with one connection of each, all others were shut out."""
    crowd = Connections(ConnectionLimits(connections=6, of_user=4))
    many = [Visitor(user(200_000 + number)) for number in range(6)]
    for each in many:
        crowd.enter(each)
    known = [Visitor(user(1)) for _ in range(3)]
    for each in known:
        crowd.enter(each)
    assert [each.is_cut for each in many] == [True] * 3 + [False] * 3
    one_more = Visitor(user(300_000))
    crowd.enter(one_more)
    assert one_more.is_cut, "together they have more than anybody else"
    assert not any(each.is_cut for each in known)


def test_among_users_without_an_account_who_has_most_makes_way() -> None:
    crowd = Connections(ConnectionLimits(connections=4, of_user=4))
    many = [Visitor(user(200_000)) for _ in range(4)]
    for each in many:
        crowd.enter(each)
    other = Visitor(user(200_001))
    crowd.enter(other)
    assert [each.is_cut for each in (*many, other)] == [True, False, False, False, False]


def test_all_addresses_of_a_host_are_one() -> None:
    assert neighbourhood("127.0.0.1") == neighbourhood("127.8.9.1") == neighbourhood("::1")
    assert neighbourhood("2001:db8::1") == neighbourhood("2001:db8::ffff:2") != neighbourhood("2001:db8:0:1::1")
    assert neighbourhood("192.0.2.1") != neighbourhood("192.0.2.2")


MALFORMED = [
    {"origin": "http://["},
    {"origin": "http://[::1"},
    {"origin": "http://[v1.x]:y"},
    {"origin": "http://\u2100.example".encode().decode("latin-1")},
]


@pytest.mark.parametrize("headers", MALFORMED, ids=repr)
@pytest.mark.parametrize(
    "path", ["/", "/login", "/metrics", "/healthz", "/api/v1/status", "/static/page.css", "/none"]
)
def test_an_origin_that_makes_no_sense_is_a_bad_request_and_no_line(
    site: Site, caplog: pytest.LogCaptureFixture, headers: dict[str, str], path: str
) -> None:
    """F36"""
    for method in ("GET", "POST"):
        assert site.ask(path, method, headers=headers).status in (400, 403, 404, 405, 200)
    assert site.ask(path, headers={"origin": "http://["}).status == 400
    assert caplog.records == []


HEADERS = st.sampled_from(["origin", "cookie", "authorization", "accept", "content-type", "range", "x-forwarded-for"])
WORDS = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=60)


@settings(deadline=None)
@given(
    headers=st.dictionaries(HEADERS, WORDS, max_size=4), path=st.sampled_from(["/", "/login", "/api/v1/protections"])
)
def test_no_header_makes_the_page_fail(one_site: Site, headers: dict[str, str], path: str) -> None:
    """F36"""
    for method in ("GET", "POST", "HEAD"):
        assert one_site.ask(path, method, headers=headers).status < 500


@pytest.fixture(scope="module")
def one_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(hall(varied), tmp_path_factory.mktemp("crowd"), token=TOKEN) as made:
        yield made


def test_a_form_of_too_many_fields_is_a_bad_request(site: Site) -> None:
    body = "&".join(f"f{number}=1" for number in range(50))
    headers = {"origin": site.url, "content-type": "application/x-www-form-urlencoded"}
    assert site.ask("/login", "POST", body, headers).status == 400


@pytest.mark.parametrize(
    "path", ["/", "/metrics", "/healthz", "/api/v1/status", "/static/page.css", "/stream", "/no"]
)
def test_head_says_what_get_would_without_its_body(site: Site, path: str) -> None:
    """F36: HEAD is answered"""
    connection = http.client.HTTPConnection(site.address.host, site.address.port, timeout=LIMIT_S)
    connection.request("HEAD", path)
    answer = connection.getresponse()
    assert answer.status == (404 if path == "/no" else 200)
    assert answer.read() == b""
    connection.close()


def test_a_wrong_name_is_told_to_programs_as_json(site: Site) -> None:
    """F36"""
    answer = site.ask("/api/v1/status", headers={"host": "evil.example"})
    assert answer.status == 421
    assert "not known by that name" in json.loads(answer.text)["detail"]
    assert "not known by that name" in site.ask("/", headers={"host": "evil.example"}).text


def login(site: Site, token: str) -> tuple[int, str]:
    """The status, and the cookie."""
    headers = {"origin": site.url, "content-type": "application/x-www-form-urlencoded"}
    answer = site.ask("/login", "POST", f"token={token}", headers)
    return answer.status, (answer.headers.get("set-cookie") or "").partition(";")[0]


def test_a_cookie_means_nothing_after_logging_out_whoever_has_a_copy(site: Site) -> None:
    """Weak: the cookie outlives logout"""
    (_, mine), (_, other) = login(site, TOKEN), login(site, TOKEN)
    assert mine != other
    assert "Place a protection" in site.ask("/", headers={"cookie": mine}).text
    site.ask("/logout", "POST", headers={"origin": site.url, "cookie": mine})
    assert "Place a protection" not in site.ask("/", headers={"cookie": mine}).text
    assert "Place a protection" in site.ask("/", headers={"cookie": other}).text, "another browser stays logged in"


class OneConnection:
    """A connection that only remembers that it was ended."""

    def __init__(self, owner: str, *, lasts: bool = False) -> None:
        self.owner = owner
        self.lasts = lasts
        self.is_cut = False

    def cut(self) -> None:
        self.is_cut = True


@pytest.mark.parametrize("lasts", [True, False])
def test_root_is_let_in_though_as_many_users_as_there_are_places_have_one_each(*, lasts: bool) -> None:
    connections = Connections(ConnectionLimits(64, of_user=16))
    others = [OneConnection(user(1000 + number), lasts=lasts) for number in range(64)]
    for each in others:
        connections.enter(each)
    root = OneConnection(user(0))
    connections.enter(root)
    assert not root.is_cut
    assert sum(each.is_cut for each in others) == 1


def test_who_has_as_many_as_anybody_gets_no_more() -> None:
    connections = Connections(ConnectionLimits(2, of_user=2))
    ada, bob, eve = (OneConnection(user(uid)) for uid in (1001, 1002, 1003))
    for each in (ada, bob, eve):
        connections.enter(each)
    assert [each.is_cut for each in (ada, bob, eve)] == [False, False, True], "one each is a fair share of two"
