"""What the calls return: the fields of the JSON, short in a line, a table in a notebook, and safe to show."""

import pickle
from typing import Any, get_type_hints

import pytest

import fallow
from fallow.core.activity import Activity
from fallow.core.findings import Event
from fallow.core.gpu import Holder
from fallow.core.gpu_status import Status
from fallow.core.idle_answer import IdleAnswer
from fallow.core.protections import Everything, OneGpu, Protection
from fallow.core.reservations import Claim
from fallow.core.value import replace
from fallow.engine.answers.why import Explained
from fallow.interfaces.python.told import Told
from fallow.interfaces.render import as_json, why_text
from tests.interfaces.web.boards import card

NOW_S = 1_800_000_000.0
EVIL = '<script x="1">\x1b[2J'
UUID = str(card(0, Activity.IDLE, "", 10).uuid)


def status(command: str = "python train.py", user: str = "ada") -> fallow.Status:
    holder = Holder(7, 2**30, 0.5, user=user, command=command)
    busy = replace(
        card(0, Activity.BUSY, "as the test says", 10), holders=(holder,), claim=Claim(False, 7, user, "x")
    )
    free = card(1, Activity.FREE, "nobody holds it", 10)
    protections = [Protection(123456789, OneGpu(UUID), NOW_S + 60, command, user)]
    what = Status("box", True, NOW_S, (busy, free))
    return fallow.Status({**as_json.status(what, protections), "available_to_you": 1})


def explanation(text: str = "as the test says") -> fallow.Explanation:
    event = Event(1, NOW_S, "action", f"gpu:{UUID}", "ask", text, (("power", text),))
    protection = Protection(123456789, Everything(), NOW_S + 60, text, text)
    found = Explained(
        target=OneGpu(UUID),
        watched=True,
        trouble=None,
        has_ended=False,
        gpus=(card(0, Activity.BUSY, text, 10),),
        parked=(),
        protections=[protection],
        rules=[],
        events=[event],
        stops=[],
        unreadable=None,
        no_journal=None,
        now_s=NOW_S,
        labels={UUID: "0"},
    )
    return fallow.Explanation(why_text.as_json(found), why_text.lines(found))


def report(name: str = "ada") -> fallow.Report:
    hours = {f"{activity.value}_s": 3600.0 for activity in Activity} | {"observed_s": 6 * 3600.0}
    energy = {"energy_j": 3.6e6, "metered_s": 6 * 3600.0}
    line = {"user": name, **hours, **energy, "cost": None, "unknown": {"cost": "GPU 0 has no price"}}
    total = {**hours, **energy, "cost": 5.0, "unknown": {}}
    times = {"since": "2026-11-01T00:00:00.000+00:00", "until": "2026-11-08T00:00:00.000+00:00"}
    made = {"fallow": "1", "host": "box", "at": times["until"], "source": "the daemon", "resolution_s": 900.0}
    hour = {"weekday": 1, "hour": 9, **{f"{activity.value}_s": 1.0 for activity in Activity}}
    watched = {"observed_share": 0.5, "gaps": [times], "hours": [hour], "made": made}
    told = {"by": "user", "currency": "USD", "gpus": [], "lines": [line], "total": total}
    return fallow.Report({"version": 1, **times, **watched, **told})


def idle(because: str = "held, nothing runs") -> fallow.Idle:
    answer = IdleAnswer("0", UUID, None, Activity.IDLE, 12.0, because)
    return fallow.Idle(as_json.idle([answer], 60.0, None))


EVERY = (status, explanation, report, idle)


def fields(kind: type[Told]) -> set[str]:
    return {name for name in get_type_hints(kind) if not name.startswith("_")} - {"MADE", "notes", "lines", "unknown"}


@pytest.mark.parametrize("made", EVERY)
def test_what_others_wrote_reaches_neither_the_terminal_nor_the_page_raw(made: Any) -> None:
    told = made(EVIL)
    assert repr(told).isprintable()
    html = told._repr_html_()
    assert html.isprintable()
    assert "<script" not in html
    assert "&lt;script x=" in html


@pytest.mark.parametrize("made", EVERY)
def test_a_value_is_frozen_can_be_compared_pickled_and_used_as_a_key(made: Any) -> None:
    told = made()
    with pytest.raises(AttributeError, match="frozen"):
        told.idle = True
    again = pickle.loads(pickle.dumps(told))
    assert again == told
    assert {told: 1}[again] == 1
    assert told != made(EVIL)
    told.to_dict()["version"] = 2
    assert told.to_dict()["version"] == 1, "the dictionary is the caller's own"


def test_a_repr_is_one_short_line() -> None:
    assert repr(status()) == "<Status box: 2 x H100 (simulated): 1 available (1 free), 1 busy>"
    assert repr(status().gpus[0]) == "<GpuStatus 0: busy: as the test says>"
    assert repr(idle()) == "<Idle for 1m: cannot be told: GPU 0: held, nothing runs>"
    without = fallow.Idle(as_json.idle([], 60.0, True))
    assert repr(without) == "<Idle for 1m: yes: holds no GPU>"
    assert "holds no GPU" in without._repr_html_()
    span = "2026-11-01 00:00 to 2026-11-08 00:00 UTC"
    assert repr(report()) == f"<Report {span} by user: 2.0h of 6.0h idle or stuck, 5.00 USD>"
    assert repr(explanation()).startswith("<Explanation GPU 0 is busy")
    for made in (status("x" * 9000), idle("x" * 9000), explanation("x" * 9000)):
        assert len(repr(made)) < 160


def test_what_is_not_known_is_an_unknown_with_its_reason_and_never_a_yes() -> None:
    line = report().lines[0]
    assert isinstance(line.cost, fallow.Unknown)
    assert line.cost.why == "GPU 0 has no price"
    assert 'title="GPU 0 has no price">?<' in report()._repr_html_()
    assert idle().idle is None
    assert not idle()


def test_the_table_of_a_status_says_who_is_on_each_gpu() -> None:
    html = status()._repr_html_()
    for said in ("box: 2 x H100 (simulated): 1 available", "busy", "ada", "python train.py", "protected until"):
        assert said in html, said
