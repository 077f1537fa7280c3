"""Connections that say nothing, never end, are too many, or bring nonsense: nobody else notices, and no log grows."""

import json
import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.interfaces.web import connection
from fallow.readers.sockets import user_of
from tests.interfaces.web.boards import varied
from tests.interfaces.web.served import TOKEN, Site, hall, served
from tests.places import LIMIT_S

ASKS = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(hall(varied), tmp_path_factory.mktemp("site"), token=TOKEN) as made:
        yield made


@contextmanager
def connected(site: Site) -> Iterator[socket.socket]:
    with socket.create_connection((site.address.host, site.address.port), LIMIT_S) as made:
        yield made


def rest_of(connected: socket.socket) -> bytes:
    """All that still comes, until the page hangs up within the time of a test."""
    said = b""
    try:
        while some := connected.recv(65536):
            said += some
    except ConnectionResetError:
        pass
    return said


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET / HTTP/1.1\r\nhost: localhost\r\n",
        b"POST /login HTTP/1.1\r\nhost: localhost\r\norigin: http://localhost\r\ncontent-length: 50\r\n\r\ntoken=x",
    ],
    ids=["nothing", "half a head", "half a body"],
)
def test_who_owes_a_request_is_cut_off_in_time_and_who_watches_is_not(
    site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(connection, "REQUEST_S", 0.3)
    with connected(site) as watching, connected(site) as silent:
        watching.sendall(b"GET /stream HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b"200 OK" in watching.recv(65536)
        silent.sendall(said)
        assert rest_of(silent) == b""
        watching.settimeout(0.3)
        with pytest.raises(TimeoutError):
            rest_of(watching)
    assert caplog.records == []


def test_of_too_many_connections_the_new_ones_end(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MOST_CONNECTIONS", 5)
    with ExitStack() as stack:
        first = [stack.enter_context(connected(site)) for _ in range(5)]
        with connected(site) as late:
            assert rest_of(late) == b""
        for each in first:
            each.sendall(ASKS)
            assert b"200 OK" in rest_of(each)
    assert site.ask("/healthz").status == 200


def test_who_goes_away_in_the_middle_of_a_body_leaves_no_traceback(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    head = f"POST /protections HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: 90\r\n"
    for _ in range(5):
        with connected(site) as leaving:
            leaving.sendall(f"{head}\r\nsubject=all".encode())
    assert site.ask("/healthz").status == 200
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


CONNECTS = """
import os, socket, sys
os.setgroups([])
os.setresgid(*[61001] * 3)
os.setresuid(*[61001] * 3)
made = socket.socket()
made.connect((sys.argv[1], int(sys.argv[2])))
sys.stdin.read()
"""


@pytest.mark.as_root
def test_whose_a_connection_is_the_kernel_tells_until_it_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        words = [sys.executable, "-c", CONNECTS, *map(str, listening.getsockname())]
        with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
            theirs, _ = listening.accept()
            with theirs:
                assert user_of(theirs) == 61001
                process.kill()
                while theirs.recv(4096):
                    pass
                assert user_of(theirs) is None


@pytest.mark.parametrize("origin", ["http://[", "http://[::1"])
def test_an_origin_that_makes_no_sense_is_a_bad_request_and_no_line(
    site: Site, caplog: pytest.LogCaptureFixture, origin: str
) -> None:
    for path in ("/", "/login", "/api/v1/status", "/none"):
        assert site.ask(path, "POST", headers={"origin": origin}).status == 400
    assert caplog.records == []


HEADERS = st.sampled_from(["origin", "cookie", "accept", "content-type", "range", "x-forwarded-for"])
WORDS = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=60)


@settings(deadline=None)
@given(
    headers=st.dictionaries(HEADERS, WORDS, max_size=4), path=st.sampled_from(["/", "/login", "/api/v1/protections"])
)
def test_no_header_makes_the_page_fail(site: Site, headers: dict[str, str], path: str) -> None:
    for method in ("GET", "POST", "HEAD"):
        assert site.ask(path, method, headers=headers).status < 500


def test_a_form_of_too_many_fields_is_a_bad_request(site: Site) -> None:
    body = "&".join(f"f{number}=1" for number in range(50))
    headers = {"origin": site.url, "content-type": "application/x-www-form-urlencoded"}
    assert site.ask("/login", "POST", body, headers).status == 400


def test_head_says_what_get_would_without_its_body(site: Site) -> None:
    for path in ("/", "/metrics", "/stream", "/no"):
        answer = site.ask(path, "HEAD")
        assert (answer.status, answer.body) == (404 if path == "/no" else 200, b"")


def test_a_wrong_name_is_told_to_programs_as_json(site: Site) -> None:
    answer = site.ask("/api/v1/status", headers={"host": "evil.example"})
    assert answer.status == 421
    assert "not known by that name" in json.loads(answer.text)["detail"]
    assert "not known by that name" in site.ask("/", headers={"host": "evil.example"}).text
