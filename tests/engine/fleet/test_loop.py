"""How often the hosts of a fleet are asked, and how much of their answers is kept."""

from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from fallow.engine.fleet.ask import Host
from fallow.engine.fleet.loop import FleetLoop
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.machine.clock import SystemClock
from fallow.engine.machine.world import World
from fallow.readers.remote_http import RemoteHttp, server_at
from tests.engine.remote.test_answers import example
from tests.waiting import until

pytestmark = pytest.mark.more


class Refuses(BaseHTTPRequestHandler):
    """Wants another token for all that is below /locked, and answers everything else with a word."""

    asked: Counter[bool]

    def do_GET(self) -> None:
        locked = self.path.startswith("/locked")
        self.asked[locked] += 1
        self.send_response(401 if locked else 200)
        self.end_headers()
        self.wfile.write(b'{"detail": "this is not the token"}')

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_a_host_that_refuses_our_token_is_not_asked_as_often_as_the_others(tmp_path: Path) -> None:
    handler = type("Handler", (Refuses,), {"asked": Counter()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_port}"
        hosts = [Host(name, RemoteHttp(SystemClock(), server_at(f"{url}/{name}"))) for name in ("open", "locked")]
        journal = Journal(str(tmp_path), lambda: 1.0, lambda _: None)
        run = Run(World({}), journal, Report(lambda _: None))
        loop = FleetLoop(run, hosts, every_s=0.001, silent_for_s=60.0)
        loop.start()
        until(lambda: handler.asked[False] >= 20 and handler.asked[True] >= 1)
        loop.end()
        journal.close()
        server.shutdown()
    assert handler.asked[True] * 5 < handler.asked[False]


class Fat(BaseHTTPRequestHandler):
    """Answers as fallow does, with much more besides: in bytes of which each becomes six letters."""

    def do_GET(self) -> None:
        told = example()
        more = b",".join([b'"%s"' % (b"\xff" * 1000)] * (180 if self.path.startswith("/fat") else 1))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(told[:-1].encode() + b', "more": [%s]}' % more)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_what_hosts_told_is_no_longer_than_what_a_client_reads_of_all(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Fat) as server:
        Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_port}"
        hosts = [Host(name, RemoteHttp(SystemClock(), server_at(f"{url}/{name}"))) for name in ("lean", "fat")]
        journal = Journal(str(tmp_path), lambda: 1.0, lambda _: None)
        loop = FleetLoop(Run(World({}), journal, Report(lambda _: None)), hosts, every_s=0.001, silent_for_s=60.0)
        loop.start()
        asked = until(
            lambda: loop.board.hosts, lambda found: all("not asked" not in str(each.silent) for each in found)
        )
        loop.end()
        journal.close()
        server.shutdown()
    lean, fat = asked
    assert lean.facts is not None
    assert fat.facts is None
    assert "too long" in str(fat.silent)
