"""People are told about their own jobs: at real servers, each at their own address, and not too often."""

import json
import pwd
import queue
import socket
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from fallow.core.address_template import parse_template
from fallow.core.notices import Notice, NoticeEvent
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.machine.world import World
from fallow.engine.notify.people import EVENTS, People, PeopleRules
from fallow.policies.grouping import GroupingRules
from tests.conftest import Fallow
from tests.core.test_address_template import ODD
from tests.harness import Machine
from tests.places import LIMIT_S, ME
from tests.waiting import until

SECRET = "hunter2"
MANY = GroupingRules(EVENTS, group_for_s=0.0, at_most=10)
Got = "queue.SimpleQueue[tuple[str, str]]"


class _Server(BaseHTTPRequestHandler):
    """Keeps to which path what was sent."""

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.got.put((self.path, sent["message"]))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing on the test's terminal."""


@pytest.fixture
def web() -> Iterator[tuple[str, Got]]:
    """A server on loopback: the template of its addresses, and what it got."""
    with HTTPServer(("127.0.0.1", 0), _Server) as server:
        server.got = queue.SimpleQueue()  # type: ignore[attr-defined]
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"json://bot:{SECRET}@127.0.0.1:{server.server_address[1]}/{{user}}", server.got  # type: ignore[attr-defined]
        server.shutdown()
        thread.join(LIMIT_S)


@pytest.fixture
def accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A password database that has ada, grace and everybody with an odd name, as a directory service may."""
    numbers = {
        name: 1000 + number for number, name in enumerate(("ada", "grace", *ODD, *map("user{}".format, range(50))))
    }
    real = pwd.getpwnam

    def entry(name: str) -> pwd.struct_passwd:
        if name not in numbers:
            return real(name)
        return pwd.struct_passwd((name, "x", numbers[name], 1000, "", "/", "/bin/sh"))

    monkeypatch.setattr(pwd, "getpwnam", entry)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def make(fallow: Fallow, told: list[str], accounts: None) -> Iterator[Callable[..., People]]:
    made: list[People] = []

    def build(template: str | None, *, dry_run: bool = False, **rules: object) -> People:
        journal = Journal("/dev/null/nowhere", time.time, lambda _: None)
        run = Run(World(fallow.environ), journal, Report(told.append), dry_run)
        parsed = None if template is None else parse_template(template)
        made.append(People(run, PeopleRules(parsed, **{"grouping": MANY, **rules})))  # type: ignore[arg-type]
        return made[-1]

    yield build
    for each in made:
        each.close(0.0)


def notice(user: str, event: NoticeEvent = "warned", number: int = 7) -> Notice:
    return Notice(event, f"pid:{number}@1", f"{user}'s job {number} was {event}", user, "To keep it: fallow protect")


def test_each_person_is_told_at_their_own_address(make: Callable[..., People], web: tuple[str, Got]) -> None:
    template, got = web
    people = make(template)
    assert people.note(notice("ada")) == "a notice goes to ada by json"
    assert people.note(notice("grace")) == "a notice goes to grace by json"
    people.close(60.0)
    sent = dict(got.get(timeout=LIMIT_S) for _ in range(2))
    assert sent == {f"/{user}": f"{user}'s job 7 was warned. To keep it: fallow protect" for user in ("ada", "grace")}


@pytest.mark.parametrize("event", ["idle", "stuck", "card_lost", "going_down", "filler_given_up"])
def test_nobody_is_told_of_what_happens_to_nobody_s_job_or_only_to_the_administrator(
    make: Callable[..., People], web: tuple[str, Got], event: NoticeEvent
) -> None:
    template, got = web
    people = make(template)
    assert people.note(notice("ada", event)) == ""
    assert people.note(Notice("stopped", "gpu:0", "about no job")) == ""
    assert make(None).note(notice("ada")) == ""
    people.close(60.0)
    assert got.empty()


@pytest.mark.parametrize("name", [name for name in ODD if name])
def test_a_login_name_that_is_not_plain_gets_no_notice(
    make: Callable[..., People], web: tuple[str, Got], name: str
) -> None:
    template, got = web
    people = make(template)
    said = people.note(notice(name))
    assert said.startswith("no notice to ")
    assert said.endswith(": that is no plain login name")
    assert said.isprintable()
    people.close(60.0)
    assert got.empty()


def test_root_and_system_users_are_told_only_if_the_config_says_so(
    make: Callable[..., People], web: tuple[str, Got]
) -> None:
    template, got = web
    people = make(template)
    for user in ("root", "daemon", "nobody"):
        assert people.note(notice(user)) == f"no notice to {user}: root and system users are not told"
    assert people.note(notice("nobdy")) == "no notice to nobdy: the password database does not have them"
    people.close(60.0)
    assert got.empty()
    people = make(template, system_users=True)
    assert people.note(notice("daemon")) == "a notice goes to daemon by json"
    people.close(60.0)
    assert got.get(timeout=LIMIT_S)[0] == "/daemon"


def test_what_comes_together_is_one_message(make: Callable[..., People], web: tuple[str, Got]) -> None:
    template, got = web
    people = make(template, grouping=GroupingRules(EVENTS, group_for_s=60.0))
    for event in ("warned", "stopped"):
        people.note(notice("ada", event))  # type: ignore[arg-type]
    people.close(60.0)
    _, text = got.get(timeout=LIMIT_S)
    assert [line.split()[4].rstrip(".") for line in text.splitlines()] == ["warned", "stopped"]


def test_a_server_that_never_answers_delays_nobody_and_is_told_without_secrets(
    make: Callable[..., People], told: list[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        people = make(f"json://bot:{SECRET}@127.0.0.1:{silent.getsockname()[1]}/{{user}}")
        assert people.note(notice("ada")) == "a notice goes to ada by json", "the loop goes on"
        people.close(0.2)
    assert told == ["notices to people: the last could not be sent in time"]


def test_a_failure_is_told_once_with_the_name_and_without_the_address(
    make: Callable[..., People], told: list[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    people = make(f"json://bot:{SECRET}@127.0.0.1:{port}/{{user}}")
    for number in range(2):
        people.note(notice("ada", number=number))
        until(lambda: people.turn() or people._sending.is_idle)
    people.close(60.0)
    failure = "could not tell json://…: Apprise could not deliver it"
    assert told == [f"notices to ada: {failure}; reported once, until it works again"]


def test_a_dry_run_only_says_what_it_would_send(
    make: Callable[..., People], web: tuple[str, Got], told: list[str]
) -> None:
    template, got = web
    people = make(template, dry_run=True)
    assert people.note(notice("ada")) == "a notice would go to ada by json"
    people.close(60.0)
    assert got.empty()
    (line,) = told
    assert line.startswith("notices to ada: would tell json://…: ")


def test_the_outcome_of_a_warning_says_how_its_person_was_told_without_secrets(
    machine: Machine, web: tuple[str, Got]
) -> None:
    template, got = web
    machine.gpu(0).held_by(4711, load=0.0)
    machine.configure(
        "[[idle]]\nname = 'forgotten'\nact = true\nidle_for = '20s'\nwarn_before = '10s'\nwarmup = '0s'\n"
        f"[notices]\ngroup_for = 0\n[notices.people]\ntemplate = '{template}'\nsystem_users = true\n"
    )
    machine.pass_(seconds=30)
    told = [got.get(timeout=LIMIT_S)]
    machine.end()
    told.append(got.get(timeout=LIMIT_S))
    assert [path for path, _ in told] == [f"/{ME}", f"/{ME}"]
    assert f"{ME}'s job 4711 (python) was warned: idle for " in told[0][1]
    assert told[0][1].endswith("To keep it: fallow protect pid:4711 --for 2h")
    assert " was stopped: " in told[1][1]
    events = [event.because for event in machine.events()]
    assert any(f"a notice goes to {ME} by json" in because for because in events)
    assert SECRET not in "".join([*events, *machine.told])
