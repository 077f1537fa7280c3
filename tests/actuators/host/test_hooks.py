"""Commands and notices that people asked for: done in time, and what came of it in words."""

import http.server
import json
import os
import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fallow.actuators.host import notice
from fallow.actuators.host.hooks import DryRunHooks, SystemHooks
from fallow.core.account import RunAs
from fallow.core.errors import WrongUsage
from fallow.core.findings import Outcome
from fallow.readers.accounts import account
from tests.places import LIMIT_S

# Apprise, where it is installed, imports modules that some Pythons are about to drop.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def hooks(**limits: float) -> SystemHooks:
    return SystemHooks(os.environ, **limits)


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("true", Outcome(True, "'true' ended well")),
        ("echo $WHAT", Outcome(True, "'echo' ended well; it said: gpu 3")),
        ("echo no disk; exit 3", Outcome(False, "'echo' ended with exit code 3; it said: no disk")),
        ("seq 300000", Outcome(True, "'seq' ended well; it said: 300000")),  # nearly 2 MiB
        ("kill -KILL $$", Outcome(False, "'kill' died of SIGKILL")),
    ],
)
def test_what_came_of_a_command_is_said(line: str, outcome: Outcome) -> None:
    assert hooks().run_command(line, {"WHAT": "gpu 3"}) == outcome


@pytest.mark.as_root
def test_what_a_command_of_another_user_prints_is_not_told() -> None:
    """Everybody reads the outcome; that of the daemon's own command is the administrator's to word."""
    worker = account("daemon")
    assert worker is not None
    theirs = SystemHooks(os.environ, RunAs(worker, {"PATH": os.defpath}))
    assert theirs.run_command("echo PASSWORD; exit 3", {}) == Outcome(False, "'echo' ended with exit code 3")


def test_a_command_that_hangs_is_killed() -> None:
    outcome = hooks(command_limit_s=0.2).run_command("echo begun; sleep 60", {})
    assert outcome == Outcome(False, "'echo' was killed after 0.2 s; it said: begun")


class Server(http.server.BaseHTTPRequestHandler):
    """Answers 200, or 500 under /broken, and keeps what it was sent."""

    def do_POST(self) -> None:
        got: queue.SimpleQueue[object] = self.server.got  # type: ignore[attr-defined]
        got.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(500 if self.path == "/broken" else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing on the test's terminal."""


@contextmanager
def serving() -> Iterator[tuple[str, "queue.SimpleQueue[object]"]]:
    with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
        got: queue.SimpleQueue[object] = queue.SimpleQueue()
        server.got = got  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", got
        finally:
            server.shutdown()
            thread.join(LIMIT_S)


def test_a_plain_web_address_gets_json_with_a_text_that_chats_show() -> None:
    with serving() as (address, got):
        urls = [f"{address}/hook?token=secret", f"{address}/broken"]
        good, bad = notice.send(os.environ, urls, "GPU 3 lies fallow", "for 30 min")
        assert good == Outcome(True, "told http://127.0.0.1/…")
        assert bad == Outcome(False, "could not tell http://127.0.0.1/…: HTTP Error 500: Internal Server Error")
        assert got.get() == {"title": "GPU 3 lies fallow", "text": "GPU 3 lies fallow: for 30 min"}


def test_a_server_that_never_answers_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        outcomes = notice.send(os.environ, [address, "http://127.0.0.1:1/"], "title", "text", 0.2)
    assert outcomes[0] == Outcome(False, "could not tell http://127.0.0.1/…: no answer in 0.2 s")
    assert "Connection refused" in outcomes[1].words, "the others have been tried"


def test_an_address_that_nobody_knows_is_refused_without_its_secrets() -> None:
    urls = ["pigeon://token/of/somebody", "nonsense", "http://[broken", "json://somebody@example.org"]
    *refused, known = notice.refusals(os.environ, urls)
    assert known is None
    for why in refused:
        assert isinstance(why, WrongUsage)
        assert "somebody" not in str(why)


def test_what_others_wrote_is_plain_text_to_every_service() -> None:
    """V13: no mention, no tag, no link, no second line of somebody else's, nothing that turns the text around."""
    bait = "@everyone <a href='http://evil'>x</a> [y](http://evil) `z` \u202e\x1b[31m\nfallow: all is well"
    with serving() as (address, got):
        assert hooks().notify(address.replace("http://", "json://"), bait, f"pid 7 ({bait})").ok
        message = got.get()
    assert isinstance(message, dict)
    for part in (message["title"], message["message"]):
        assert not set("@<>[]`*\u202e\x1b") & set(part)
        assert "://" not in part
        assert "everyone" in part, "it can still be read"


def test_a_dry_run_only_says_what_it_would_do() -> None:
    assert DryRunHooks().run_command("rm -r /", {}).words == "would run 'rm'"
    said = DryRunHooks().notify("mailto://user:secret@example.org", "title", "text").words
    assert said == "would tell mailto://…: title: text"
