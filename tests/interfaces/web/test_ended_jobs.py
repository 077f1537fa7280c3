"""The page of a job that has ended: how it ended, first of all, and the hours that it had."""

import html
import pathlib
import re

import pytest

from fallow.core.activity import Activity
from fallow.core.findings import gpu_key, process_key
from fallow.core.gpu import Holder
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.money import Prices
from fallow.core.value import replace
from fallow.engine.history.journal import Journal
from fallow.engine.history.writer import HistoryWriter
from fallow.engine.machine.clock import SystemClock
from tests.interfaces.web.boards import board, card
from tests.interfaces.web.served import hall, served
from tests.places import LIMIT_S
from tests.reasons import said

pytestmark = pytest.mark.more

BEGAN_S, RAN_S, ENDED_AGO_S = -1500, 180, 1080
PID, BORN = 3900, 77


def held(command: str) -> GpuStatus:
    holders = (Holder(PID, 2**30, utilization=0.0, user="games", command=command, birth=BORN),)
    return card(0, Activity.IDLE, "nothing ran", 60.0, holders=holders)


FREE = card(0, Activity.FREE, "nobody holds it", 60.0)
UUID = str(FREE.uuid)


def record(state: pathlib.Path, now_s: float) -> None:
    """An earlier job of the same user, then the job, then nobody."""
    state.mkdir(mode=0o700, parents=True)
    history = HistoryWriter(str(state), print)
    for second in range(BEGAN_S, -600):
        gone = second >= -ENDED_AGO_S
        gpu = FREE if gone else held("python3 train.py" if second >= -ENDED_AGO_S - RAN_S else "python3 other.py")
        history.record(Status("box", False, now_s + second, (gpu,)))
    assert history.settle(LIMIT_S)
    history.close()


def tell(state: pathlib.Path, now_s: float) -> None:
    at_s = [0.0]
    journal = Journal(str(state), lambda: at_s[0], print)
    keys, facts = [gpu_key(UUID), process_key(PID, BORN)], {"rule": "forgotten", "job_user": "games"}
    name = "games's job 3900 (python3)"
    for ago_s, step in ((ENDED_AGO_S + 60, "warn"), (ENDED_AGO_S + 10, "ask")):
        at_s[0] = now_s - ago_s
        journal.action(name, step, said("idle for 3m").with_facts(**facts, step=step), keys)
    at_s[0] = now_s - ENDED_AGO_S
    journal.outcome(name, "stopped", said("nobody of it is left").with_facts(**facts, step="stopped"), keys)
    journal.close()


def page_of_the_job(home: pathlib.Path) -> str:
    now_s = SystemClock().wall_s()
    record(home / "state", now_s)
    tell(home / "state", now_s)
    shown = board(Status("box", False, now_s, (FREE,)), prices=Prices(60.0, (), "USD"))
    with served(hall(lambda _: shown), home) as site:
        return site.ask(f"/jobs/{PID}-{BORN}").text


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_the_page_of_a_stopped_job_says_first_when_and_why_it_was_stopped_and_has_its_hours(
    tmp_path: pathlib.Path,
) -> None:
    page = page_of_the_job(tmp_path)
    head = text_of(page.split("<main")[1].split("<section")[0])
    assert "stopped 18m ago: idle for 3m, by rule forgotten" in head
    hours = text_of(page.split('id="hours-title"')[1].split("</section>")[0])
    assert "24 hours 3m 3.00 USD" in hours, "its 3 minutes, and none of the job before it"
    assert "Nothing has been recorded" not in page
    assert f'href="/gpus/{UUID}"' in page.split("GPUs in the last 7 days")[1]


def test_a_job_of_which_history_knows_nothing_has_no_hours_and_still_says_how_it_ended(
    tmp_path: pathlib.Path,
) -> None:
    now_s = SystemClock().wall_s()
    tell(tmp_path / "state", now_s)
    shown = replace(board(Status("box", False, now_s, (FREE,))))
    with served(hall(lambda _: shown), tmp_path) as site:
        page = text_of(site.ask(f"/jobs/{PID}-{BORN}").text)
    assert "stopped 18m ago: idle for 3m, by rule forgotten" in page
    assert "History has no time of this job." in page
