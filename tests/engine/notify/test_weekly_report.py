"""The weekly report: mailed once for each week by a real program to a real mail server, and never twice."""

import json
import pathlib
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from fallow.core.week_time import WeeklyTime
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.machine.clock import SystemClock
from fallow.engine.machine.world import World
from fallow.engine.notify.weekly_report import FILE_NAME, WeeklyReport
from tests.conftest import Fallow
from tests.engine.notify.test_notifier import Inbox, mail
from tests.interfaces.cli.test_report import record, two_cards
from tests.waiting import until

pytestmark = pytest.mark.more

__all__ = ["mail"]
HOUR_S, WEEK_S = 3600, 7 * 86400


class LaterClock(SystemClock):
    """A clock that a test puts forward."""

    later_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.later_s

    def wall_s(self) -> float:
        return super().wall_s() + self.later_s


class Site:
    """A daemon's weekly report, due an hour ago."""

    def __init__(self, fallow: Fallow, folder: pathlib.Path) -> None:
        fallow.environ["TZ"] = "UTC"
        self.told: list[str] = []
        self.clock = LaterClock()
        self.config = folder / "fallow.toml"
        self.state = fallow.state / FILE_NAME
        self._fallow = fallow
        at = datetime.fromtimestamp(time.time() - HOUR_S, UTC)
        self.when = WeeklyTime(at.weekday(), at.hour * 60 + at.minute)
        self.due_s = self.when.last_s(time.time(), UTC)

    def starts(self, *, dry_run: bool = False) -> WeeklyReport:
        """A daemon that starts."""
        journal = Journal("/dev/null/nowhere", time.time, lambda _: None)
        run = Run(World(self._fallow.environ, clock=self.clock), journal, Report(self.told.append), dry_run)
        return WeeklyReport(run, self.when, str(self.config), UTC)

    def was(self, became: str, weeks_ago: int = 1) -> None:
        """What an earlier daemon has noted."""
        self._fallow.state.mkdir(mode=0o700, exist_ok=True)
        self.state.write_text(json.dumps({"due_s": self.due_s - weeks_ago * WEEK_S, "became": became}))

    def mails_to(self, *urls: str) -> None:
        self.config.write_text(f"[report]\nurls = {json.dumps(urls)}\n")
        self.config.chmod(0o600)

    @property
    def became(self) -> tuple[float, str]:
        facts = json.loads(self.state.read_text())
        return facts["due_s"], facts["became"]


@pytest.fixture
def site(fallow: Fallow, tmp_path: pathlib.Path) -> Site:
    return Site(fallow, tmp_path)


def happens(weekly: WeeklyReport, look: Callable[[], Any]) -> Any:
    """Turn the loop until it is so."""

    def turned() -> Any:
        weekly.turn()
        return look()

    return until(turned, pause_s=0.05)


def at_nobody() -> str:
    """Return an address with a password, of a server that has just ended."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    return f"mailto://ada:hunter2@127.0.0.1:{port}?from=a@localhost.local&to=b@localhost.local&mode=insecure"


def test_a_daemon_that_was_off_at_the_time_sends_it_once_when_the_server_takes_it(
    fallow: Fallow, site: Site, mail: tuple[str, Inbox]
) -> None:
    url, inbox = mail
    record(fallow, two_cards(site.due_s - 2 * HOUR_S, 60))
    site.mails_to(at_nobody())
    site.was("sent")
    weekly = site.starts()
    happens(weekly, lambda: site.told)
    assert "could not tell mailto://…" in site.told[0]
    assert site.told[0].endswith("; it is tried again in 10 minutes")
    assert "hunter2" not in site.told[0]
    assert site.became == (site.due_s, "failed")
    weekly.turn()
    assert len(site.told) == 1, "not at once"

    site.mails_to(url)
    site.clock.later_s = 601.0
    happens(weekly, lambda: len(site.told) > 1)
    assert site.told[1:] == ["weekly report: report sent: told mailto://…"]
    assert site.became == (site.due_s, "sent")
    message = inbox.got.get_nowait()
    parts = {part.get_filename(): part.get_payload(decode=True) for part in message.walk() if not part.is_multipart()}
    assert "GPU report: box: 2 GPUs" in str(message["Subject"])
    assert b"\nuser  free  busy  idle" in parts[None].replace(b"\r\n", b"\n"), "its columns are below each other"
    assert b"By hour and weekday" in parts["report.html"]
    for again in (weekly, site.starts()):
        site.clock.later_s += 601.0
        again.turn()
        again.close()
    assert inbox.got.empty()
    assert len(site.told) == 2


def test_an_address_that_takes_it_gets_it_once_although_another_does_not(
    fallow: Fallow, site: Site, mail: tuple[str, Inbox]
) -> None:
    url, inbox = mail
    record(fallow, two_cards(site.due_s - 2 * HOUR_S, 60))
    site.mails_to(url, at_nobody())
    site.was("sent")
    weekly = site.starts()
    happens(weekly, lambda: site.told)
    assert site.told[0].startswith(
        "weekly report: the report was not sent to all addresses: could not tell mailto://…"
    )
    assert site.became == (site.due_s, "sent")
    inbox.got.get_nowait()
    for again in (weekly, site.starts()):
        site.clock.later_s += 601.0
        again.turn()
        again.close()
    assert inbox.got.empty()


def test_the_first_week_that_is_seen_is_noted_and_nothing_is_sent(site: Site) -> None:
    site.starts().turn()
    assert site.became == (site.due_s, "noted")
    assert site.told == []


def test_what_was_being_sent_when_the_daemon_was_killed_is_told_and_not_sent_again(site: Site) -> None:
    site.was("begun", weeks_ago=0)
    weekly = site.starts()
    for _ in range(3):
        site.clock.later_s += 60.0
        weekly.turn()
    assert len(site.told) == 1
    assert "it may be missing; to send it, run: fallow report --mail" in site.told[0]
    assert site.became == (site.due_s, "begun")


def test_a_dry_run_says_what_it_would_send_and_notes_nothing(site: Site) -> None:
    site.was("sent")
    weekly = site.starts(dry_run=True)
    for _ in range(3):
        site.clock.later_s += 60.0
        weekly.turn()
    (told,) = site.told
    assert told.startswith("weekly report: would send the one from ")
    assert site.became == (site.due_s - WEEK_S, "sent")


def test_a_note_that_is_rubbish_or_of_a_far_future_sends_nothing_and_is_replaced(site: Site) -> None:
    for became in ("sent", "failed"):
        site.was(became, weeks_ago=-100)
        site.starts().turn()
        assert site.became == (site.due_s, "noted")
    for rubbish in ("", "[]", '{"due_s": "x", "became": 1}', "\0" * 5000):
        site.state.write_text(rubbish)
        site.starts().turn()
        assert site.became == (site.due_s, "noted")
    assert site.told == []


def test_without_a_time_and_without_a_place_to_note_it_nothing_is_sent(site: Site) -> None:
    site.was("sent")
    weekly = site.starts()
    weekly.change(None, str(site.config))
    weekly.turn()
    weekly.change(site.when, str(site.config))
    site.state.unlink()
    site.state.mkdir()
    weekly.turn()
    weekly.close()
    assert site.told == [], "nothing is known of an earlier one, so there is none to send"
