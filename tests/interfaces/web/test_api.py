"""The API: the same values as the command line, and nothing that a stranger can break."""

import json
import pathlib
import time
from collections.abc import Iterator

import pytest

from fallow.core.activity import Activity
from fallow.core.gpu_status import Status
from fallow.core.money import Prices
from fallow.core.value import replace
from fallow.engine.daemon.publisher import Publisher
from fallow.engine.history.journal import Journal
from fallow.engine.history.writer import HistoryWriter
from tests.conftest import Fallow
from tests.engine.history.life import life
from tests.interfaces.web.boards import board, card, process, varied
from tests.interfaces.web.served import TOKEN, Site, hall, served
from tests.reasons import said

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x1b[31m\u202e\x00 {{ 7*7 }}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A page with a bit of everything."""
    home = tmp_path_factory.mktemp("api")
    (home / "state").mkdir()
    history = HistoryWriter(str(home / "state"), print)
    for status in life(0.02, start_s=time.time() - 0.02 * 86400):
        history.record(status)
    history.close()
    journal = Journal(str(home / "state"), time.time, print)
    journal.action("GPU 1", "ask", said("idle for 1h"), ["x"])
    journal.close()
    priced = hall(lambda now_s: replace(varied(now_s), prices=Prices(default=2.0, currency="EUR")))
    with served(priced, home, token=TOKEN) as made:
        yield made


def test_status_is_what_the_command_prints(site: Site, simulated: Fallow) -> None:
    answer = site.ask("/api/v1/status").json
    printed = json.loads(simulated("status", "--json").stdout)
    assert answer.keys() == printed.keys() - {"available_to_you"}, "which depends on the environment of who asks"
    assert answer["gpus"][0].keys() == printed["gpus"][0].keys()
    assert [gpu["activity"] for gpu in answer["gpus"]][:3] == ["busy", "idle", "stuck"]
    lost = answer["gpus"][5]
    assert lost["power_w"] is None
    assert lost["unknown"]["power_w"] == "the GPU is lost"


def test_fillers_guards_and_events_are_there(site: Site) -> None:
    assert [one["phase"] for one in site.ask("/api/v1/fillers").json["fillers"]] == ["filled", "yielding", "quiet"]
    assert site.ask("/api/v1/guards").json["guards"][0]["phase"] == "armed"
    (event,) = site.ask("/api/v1/events?limit=5").json["events"]
    assert (event["kind"], event["finding"], event["because"]) == ("action", "ask", "idle for 1h")


def test_the_report_adds_up_and_history_has_its_intervals(site: Site) -> None:
    report = site.ask("/api/v1/report?by=user&since_s=86400").json
    assert report["currency"] == "EUR"
    assert sum(line["observed_s"] for line in report["lines"]) == pytest.approx(report["total"]["observed_s"])
    history = site.ask("/api/v1/history").json
    assert len(history["gpus"]) == 8
    for gpu in history["gpus"]:
        ends = [one["end"] for one in gpu["intervals"]]
        assert [one["begin"] for one in gpu["intervals"]][1:] >= ends[:-1]
    one = history["gpus"][3]
    assert site.ask(f"/api/v1/history?gpu={one['uuid']}").json["gpus"][0]["uuid"] == one["uuid"]
    assert site.ask("/api/v1/history?gpu=GPU-none").status == 404


def test_before_the_first_tick_there_is_an_answer_too(tmp_path: pathlib.Path) -> None:
    made = Publisher()
    with served(made, tmp_path, token=TOKEN) as site:
        assert site.ask("/").status == 200
        assert "No GPU has been looked at yet" in site.ask("/").text
        for path in ("/api/v1/status", "/api/v1/fillers", "/healthz"):
            assert site.ask(path).status == 503
        assert "fallow_up 0.0" in site.ask("/metrics").text
        made.publish(varied(time.time()))
        assert site.ask("/healthz").status == 200


def test_a_policy_loop_that_is_silent_for_several_ticks_is_not_healthy(tmp_path: pathlib.Path) -> None:
    class Clock:
        now_s = 100.0

        def monotonic_s(self) -> float:
            return self.now_s

        def wall_s(self) -> float:
            return 1.7e9 + self.now_s

        def sleep(self, seconds: float) -> None:
            raise AssertionError(seconds)

    clock, made = Clock(), hall(varied)
    with served(made, tmp_path, clock=clock, every_s=1.0) as site:
        assert site.ask("/healthz").json == {"ok": True, "because": None}
        clock.now_s += 4.0
        assert site.ask("/healthz").status == 200
        clock.now_s += 2.0
        answer = site.ask("/healthz")
        assert answer.status == 503
        assert answer.json["because"] == "nobody has looked at the GPUs for 6 s"
        assert made.board is not None
        made.publish(made.board)
        assert site.ask("/healthz").status == 200


def test_hostile_names_are_words_and_nothing_else(tmp_path: pathlib.Path) -> None:
    bad = process(1, HOSTILE, f"{HOSTILE} " * 50, 1.0)
    gpu = replace(card(0, Activity.IDLE, HOSTILE, 1.0, holders=(bad,)), name=HOSTILE)
    (tmp_path / "state").mkdir()
    journal = Journal(str(tmp_path / "state"), time.time, print)
    journal.action(HOSTILE, HOSTILE, said(HOSTILE), [])
    journal.close()
    made = Publisher()
    made.publish(board(Status(HOSTILE, False, time.time(), (gpu,)), config=HOSTILE))
    with served(made, tmp_path) as site:
        page = site.ask("/").text
        assert "&lt;script&gt;" in page
        assert "<script>alert" not in page
        assert "<img" not in page
        assert "\x1b" not in page
        assert "\u202e" not in page
        assert "{{ 7*7 }}" in page, "nothing of it is computed"
        shown = page.split("<code>")[1].split("</code>")[0]
        assert len(shown) < 500
        assert "…" in shown
        assert site.ask("/api/v1/status").json["gpus"][0]["because"] == HOSTILE, "programs get it as it is"
        assert site.ask("/metrics").status == 200


def test_a_path_where_nothing_is_says_so(site: Site) -> None:
    answer = site.ask("/api/status")
    told = "there is nothing at /api/status"
    assert (answer.status, answer.json["reason"], answer.json["detail"]) == (404, "http", told)
