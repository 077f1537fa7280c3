"""What the values of Python programs say of themselves: `repr`, `str` and tables name things as people do."""

import pytest

import fallow as library
from fallow.interfaces.python.answers import Explanation, Report
from tests.conftest import Fallow


@pytest.fixture(autouse=True)
def machine(simulated: Fallow, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FALLOW_CLAIM_DIR", "FALLOW_STATE_DIR", "FALLOW_SIMULATE"):
        if name in simulated.environ:
            monkeypatch.setenv(name, simulated.environ[name])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_a_number_is_a_gpu_and_never_a_process() -> None:
    with pytest.raises(library.WrongUsage, match="55"):
        library.why(55)


def test_a_protection_that_is_too_long_is_refused_in_the_words_of_python() -> None:
    with pytest.raises(library.WrongUsage, match="for_s is 1000000000000; give 31622400 seconds at most"):
        library.protect(1, for_s=10**12)


def test_protections_name_gpus_as_people_do() -> None:
    with library.protect(1, for_s=60, why="debugging") as placed:
        assert " protects GPU 1 until " in repr(placed)
        assert "<td" in library.protections()._repr_html_()
        assert "GPU 1<" in library.protections()._repr_html_()
        assert " protects GPU 1 until " in repr(library.protections())
        assert placed.to_dict()["subject"].startswith("gpu:GPU-")


def test_what_a_program_has_claimed_is_a_table() -> None:
    with library.claim(2):
        assert library.claimed()._repr_html_().count("<tr>") == 3
    assert library.claimed() == ()


def test_a_failed_claim_says_who_has_the_gpus() -> None:
    with library.claim(4), pytest.raises(library.NotEnoughGpus) as caught:
        library.claim(1)
    assert "GPU 0: claimed by " in str(caught.value)


def test_the_total_of_a_report_has_its_hours_and_the_caption_its_times_and_currency() -> None:
    line = {f"{name}_s": 0.0 for name in ("free", "filled", "busy", "stuck", "unknown", "metered")}
    line |= {"observed_s": 7200.0, "idle_s": 30.0, "energy_j": 0.0, "cost": 2.5}
    named = {**line, "user": "ada"}
    facts = {"since": "2026-11-16T09:30:00+00:00", "until": "2026-11-16T10:30:00+00:00", "by": "user"}
    report = Report({**facts, "currency": "EUR", "lines": [named], "total": line})
    assert repr(report.total) == "<ReportLine all: <1m of 2.0h idle or stuck, 2.50>"
    assert repr(report.lines[0]) == "<ReportLine ada: <1m of 2.0h idle or stuck, 2.50>"
    html = report._repr_html_()
    assert "2026-11-16 09:30 to 2026-11-16 10:30 UTC by user" in html
    assert "2.50 EUR</td>" in html
    assert "&lt;1m</td>" in html


def test_an_explanation_of_what_has_ended_says_why_it_was_stopped() -> None:
    event = {"at": "2026-11-16T09:30:00+00:00", "finding": "stopped", "because": "idle for 3m"}
    found = Explanation({"subject": "pid:7", "events": [event], "gpus": []}, ["pid 7 has ended", "more"])
    assert repr(found) == "<Explanation pid 7 has ended: stopped: idle for 3m>"
