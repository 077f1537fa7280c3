"""What a launch that waits says of the GPUs, from what a daemon answers; whatever that is, it is only words."""

import json
import pathlib
import socket
import tempfile
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.core.api import VERSION
from fallow.engine.allocate.held_gpus import HeldGpus
from fallow.engine.machine.world import World
from tests.core.gpus import idle
from tests.length import examples
from tests.places import LIMIT_S

GPUS = [idle(index) for index in range(10)]
UUIDS = [str(gpu.uuid) for gpu in GPUS]
NOW_S = 1_700_000_000.0
MOST_LETTERS = 1000


class Timepiece:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_s(self) -> float:
        return NOW_S

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Daemon:
    """A server at the place of the daemon, whose answers are the test's."""

    def __init__(self, path: pathlib.Path) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(LIMIT_S)
                target = connection.recv(65536).split()[1].decode().removeprefix("/api/v1")
                self.asked.append(target)
                body = json.dumps(self.answers.get(target)).encode()
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + body)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(LIMIT_S)


class Street:
    """A launch that waits, and a daemon."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.daemon = Daemon(folder / "d.sock")
        self.clock = Timepiece()
        environ = {"FALLOW_SOCKET": str(folder / "d.sock"), "FALLOW_CLAIM_DIR": str(folder / "claims")}
        self.world = World(environ, clock=self.clock)
        self.held = HeldGpus(self.world, LIMIT_S)

    def says(
        self, gpus: list[dict[str, Any]], rules: list[dict[str, Any]], after_s: float = 61.0, *, dry_run: Any = False
    ) -> str:
        """What is said some time later, where the daemon shows this."""
        self.clock.sleep(after_s)
        at = datetime.fromtimestamp(NOW_S, UTC).isoformat()
        self.daemon.answers = {
            "/status": {"version": VERSION, "at": at, "gpus": gpus},
            "/rules": {"version": VERSION, "rules": rules},
            "/daemon": {"version": VERSION, "dry_run": dry_run},
        }
        return self.held.in_words(GPUS)


@pytest.fixture(scope="module")
def street() -> Iterator[Street]:
    with tempfile.TemporaryDirectory() as folder:
        made = Street(pathlib.Path(folder))
        yield made
        made.daemon.close()
        made.world.close()


def gpu(index: int, activity: str = "idle", for_s: float | None = 7200.0) -> dict[str, Any]:
    return {"uuid": UUIDS[index], "activity": activity, "for_s": for_s}


def rule(index: int, action: str, in_s: float | None = 0.0, **more: Any) -> dict[str, Any]:
    stops = {"refused": None, "left_alone": None, "held_back": None}
    facts = {"rule": "nights", "uuids": [UUIDS[index]], "action": action, "for_s": 7200.0, "in_s": in_s}
    return {**facts, **stops, **more}


@pytest.mark.parametrize(
    ("gpus", "rules", "said"),
    [
        ([gpu(3)], [rule(3, "kill")], "GPU 3 has been idle for 2h; its job was asked to end"),
        (
            [gpu(1)],
            [rule(1, "ask", 545.0)],
            "GPU 1 has been idle for 2h; the rule nights stops its job in 9m unless it works",
        ),
        ([gpu(1)], [rule(1, "warn", 70.0)], "GPU 1 has been idle for 2h; its user is warned in 1m"),
        ([gpu(1)], [rule(1, "warn", held_back="nobody waits")], "GPU 1 has been idle for 2h"),
        (
            [gpu(1)],
            [rule(1, "ask", left_alone="ada protects it")],
            "GPU 1 has been idle for 2h; its job is protected, so no rule stops it",
        ),
        ([gpu(1)], [rule(1, "report")], "GPU 1 has been idle for 2h"),
        ([gpu(1, for_s=None)], [], "GPU 1 is idle"),
        ([gpu(0, "busy")], [], "GPU 0 works"),
        ([gpu(0, "busy")], [rule(0, "kill")], "GPU 0 works; its job was asked to end"),
        ([gpu(0, "busy"), gpu(2, "busy"), gpu(5, "busy")], [], "GPUs 0, 2 and 5 work"),
        ([gpu(0, "stuck"), gpu(2, "unknown")], [], "GPU 0 hangs. GPU 2 cannot be read"),
        ([gpu(0, "free"), gpu(2, "filled")], [], ""),
        (
            [gpu(0, "busy"), gpu(1), gpu(2)],
            [rule(2, "ask", 30.0)],
            "GPU 2 has been idle for 2h; the rule nights stops its job in 30s unless it works. "
            "GPU 1 has been idle for 2h. GPU 0 works",
        ),
    ],
)
def test_it_says_what_happens_on_each_gpu(
    street: Street, gpus: list[dict[str, Any]], rules: list[dict[str, Any]], said: str
) -> None:
    assert street.says(gpus, rules) == said


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("kill", "its job would have been asked to end (dry run)"),
        ("ask", "the rule nights would stop its job in 9m unless it works (dry run)"),
        ("warn", "its user would be warned in 9m (dry run)"),
    ],
)
def test_of_a_daemon_in_a_dry_run_it_says_what_would_be(street: Street, step: str, said: str) -> None:
    assert street.says([gpu(1)], [rule(1, step, 545.0)], dry_run=True) == f"GPU 1 has been idle for 2h; {said}"


def test_a_daemon_that_does_not_say_whether_it_does_anything_is_not_believed(street: Street) -> None:
    assert street.says([gpu(1)], [rule(1, "ask", 545.0)], dry_run=None) == ""


def test_many_idle_gpus_take_a_few_words(street: Street) -> None:
    said = street.says([gpu(index) for index in range(10)], [])
    assert said.count("has been idle") == 4
    assert said.endswith(". 6 more are idle")


def test_it_asks_every_few_seconds_at_most_and_says_new_times_once_a_minute(street: Street) -> None:
    said = street.says([gpu(1, for_s=60.0)], [])
    asked = len(street.daemon.asked)
    assert street.says([gpu(1, for_s=64.0)], [], after_s=4.0) == said
    assert len(street.daemon.asked) == asked
    assert street.says([gpu(1, for_s=120.0)], [], after_s=2.0) == said
    assert len(street.daemon.asked) == asked + 2
    assert "; its job was asked to end" in street.says([gpu(1)], [rule(1, "kill")], after_s=6.0), "a change is news"


def test_a_daemon_that_has_not_looked_for_long_says_nothing(street: Street) -> None:
    street.clock.sleep(61.0)
    street.daemon.answers["/status"]["at"] = datetime.fromtimestamp(NOW_S - 100.0, UTC).isoformat()
    assert street.held.in_words(GPUS) == ""


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(max_size=30)
    | st.sampled_from([*UUIDS[:2], "idle", "busy", "ask", "kill", "warn", "\x1b[2J", "0001-01-01T00:00:00+00:00"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
gpu_facts = st.fixed_dictionaries({"uuid": anything, "activity": anything, "for_s": anything})
rule_facts = st.fixed_dictionaries(
    dict.fromkeys(("rule", "uuids", "action", "for_s", "in_s", "refused", "left_alone", "held_back"), anything)
)
nearly_gpus = st.lists(gpu_facts | st.builds(gpu, st.integers(0, 9), for_s=anything), max_size=12) | anything
nearly_rules = st.lists(rule_facts | st.builds(rule, st.integers(0, 9), in_s=anything), max_size=12) | anything


@settings(max_examples=examples(200), deadline=None)
@given(nearly_gpus, nearly_rules, st.none() | anything, st.none() | anything, st.booleans() | anything)
def test_whatever_a_daemon_answers_is_a_short_line_that_can_be_shown(
    street: Street, gpus: Any, rules: Any, at: Any, whole: Any, dry_run: Any
) -> None:
    street.says(gpus, rules)
    street.daemon.answers["/daemon"]["dry_run"] = dry_run
    if at is not None:
        street.daemon.answers["/status"]["at"] = at
    if whole is not None:
        street.daemon.answers["/rules"] = whole
    street.clock.sleep(61.0)
    said = street.held.in_words(GPUS)
    assert said.isprintable()
    assert len(said) < MOST_LETTERS
