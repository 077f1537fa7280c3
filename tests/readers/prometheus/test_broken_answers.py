"""Answers of a Prometheus that are broken, partial or many: nothing raises, and nothing of it is idle by mistake."""

import json
from math import isnan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.core.cluster import GpuReading, Readings
from fallow.core.http import HttpAnswer
from fallow.core.unknown import Unknown
from fallow.engine.machine.clock import SystemClock
from fallow.readers.prometheus.answer import LabelReader, scalar, vector
from fallow.readers.prometheus.eyes import PrometheusEyes
from tests.places import LIMIT_S
from tests.readers.prometheus.answers import Body, Break, FakePrometheus, gpus

KINDS = ("time", "there", "scrapes", "listed", "counted", "highest")
NUMBERS = ("NaN", "-1", "+Inf", "-Inf", "1e400", "101", "", "many", None, 0, [], {})
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5) | st.sampled_from(NUMBERS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


def read(spoil: Break | None, load: float) -> Readings:
    answers = FakePrometheus(gpus(2, 2), load, spoil)
    return PrometheusEyes(SystemClock(), answers, scrape_interval_s=30.0, limit_s=LIMIT_S).read()


def is_idle(gpu: GpuReading) -> bool:
    return not isinstance(gpu.utilization, Unknown) and gpu.utilization < 0.01


def test_whole_answers_are_read() -> None:
    found = read(None, 0.0)
    assert found.trouble is None
    assert [is_idle(gpu) for gpu in found.gpus] == [True] * 4
    assert found.gpus[0].memory_used_bytes == 400 << 20
    assert [is_idle(gpu) for gpu in read(None, 50.0).gpus] == [False] * 4


@pytest.mark.parametrize(
    ("metric", "of_moments"), [("DCGM_FI_DEV_GPU_UTIL", True), ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", False)]
)
def test_only_the_counters_of_profiling_are_of_all_the_time(metric: str, of_moments: bool) -> None:
    answers = FakePrometheus(gpus(2, 2), 0.0, metric=metric)
    found = PrometheusEyes(SystemClock(), answers, scrape_interval_s=30.0).read()
    assert [(gpu.utilization, gpu.of_moments) for gpu in found.gpus] == [(0.0, of_moments)] * 4


@given(
    st.binary(max_size=200) | JSON.map(lambda found: json.dumps(found).encode()),
    st.sampled_from((200, 204, 302, 503)),
)
def test_whatever_is_answered_is_read_or_unknown(body: bytes, status: int) -> None:
    vector(HttpAnswer(status, body), LabelReader(("job", "UUID")))
    scalar(HttpAnswer(status, body))
    found = PrometheusEyes(SystemClock(), lambda *_: HttpAnswer(status, body)).read()
    assert isinstance(found.trouble, Unknown)
    assert found.gpus == ()


def of_series(*series: str) -> HttpAnswer:
    return HttpAnswer(
        200, f'{{"status":"success","data":{{"resultType":"vector","result":[{",".join(series)}]}}}}'.encode()
    )


def test_two_series_with_the_same_labels_are_no_number_however_they_are_written() -> None:
    one = '{"metric":{"job":"a","UUID":"GPU-1"},"value":[1,"0"]}'
    other = '{"metric":{"UUID":"GPU-\\u0031", "job":"a", "more":"b"},"value":[1,"0"]}'
    third = '{"metric":{"UUID":"GPU-1"},"value":[1.5,"0.25"]}'
    found = vector(of_series(one, other, third), LabelReader(("job", "UUID")))
    assert not isinstance(found, Unknown)
    assert isnan(found["a", "GPU-1"])
    assert found["", "GPU-1"] == 0.25
    assert len(found) == 2


@pytest.mark.parametrize(
    "series",
    [
        '{"metric":{"job":7},"value":[1,"0"]}',
        '{"metric":{},"value":[1,"none"]}',
        '{"metric":{}}',
    ],
)
def test_one_series_that_is_none_makes_the_whole_answer_unknown(series: str) -> None:
    whole = '{"metric":{"job":"a"},"value":[1,"0"]}'
    assert vector(of_series(whole), LabelReader(("job",))) == {("a",): 0.0}
    assert isinstance(vector(of_series(whole, series), LabelReader(("job",))), Unknown)


@given(
    kind=st.sampled_from(KINDS[2:]),
    at=st.integers(0, 3),
    how=st.sampled_from(("gone", "twice", "number", "label", "no labels")),
    number=st.sampled_from(NUMBERS),
    label=st.sampled_from(("UUID", "gpu", "Hostname", "instance", "job")),
)
def test_one_broken_series_makes_its_gpu_unknown_and_no_other_one_idle_that_works(
    kind: str, at: int, how: str, number: Any, label: str
) -> None:
    def spoil(asked: str, body: Body) -> object:
        if asked == kind:
            series = body["data"]["result"]
            one = series[at % len(series)]
            if how == "gone":
                series.remove(one)
            elif how == "twice":
                series.append(one)
            elif how == "number":
                one["value"][1] = number
            elif how == "label" and label in one["metric"]:
                one["metric"][label] = "9"
            elif how == "no labels":
                one["metric"] = {}
        return body

    assert not any(map(is_idle, read(spoil, 50.0).gpus))
    idle = {gpu.key.uuid for gpu in read(spoil, 0.0).gpus if is_idle(gpu)}
    if how in ("gone", "twice", "no labels"):
        meant = gpus(2, 2)
        hurt = meant[at]["UUID"] if kind != "scrapes" else meant[2 * (at % 2)]["UUID"]
        assert hurt not in idle


def test_a_gpu_that_was_missing_in_one_scrape_of_its_exporter_is_unknown() -> None:
    def spoil(asked: str, body: Body) -> object:
        if asked == "counted":
            body["data"]["result"][0]["value"][1] = "4"  # of 5
        return body

    assert [is_idle(gpu) for gpu in read(spoil, 0.0).gpus] == [False, True, True, True]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "answered",
    [
        {"status": "error", "errorType": "execution", "error": "query timed out\x1b[2J"},
        {"status": "success", "warnings": ["a store did not answer"], "data": {"resultType": "vector", "result": []}},
        {"status": "success", "data": {"resultType": "matrix", "result": []}},
        [],
    ],
)
def test_an_error_or_a_part_of_an_answer_is_a_trouble_for_all(kind: str, answered: Any) -> None:
    found = read(lambda asked, body: answered if asked == kind else body, 0.0)
    assert isinstance(found.trouble, Unknown)
    assert found.trouble.why.isprintable()
    assert (found.gpus, found.covers_s) == ((), 0.0)


def test_a_figure_that_cannot_be_read_costs_only_itself() -> None:
    found = read(lambda asked, body: {"status": "error", "error": "no"} if asked == "figure" else body, 0.0)
    assert [is_idle(gpu) for gpu in found.gpus] == [True] * 4
    assert all(isinstance(gpu.memory_used_bytes, Unknown) for gpu in found.gpus)


def test_what_a_failed_look_missed_is_covered_by_the_next_one() -> None:
    class Clock(SystemClock):
        now_s = 1000.0

        def monotonic_s(self) -> float:  # type: ignore[override]
            return self.now_s

    clock, answers = Clock(), FakePrometheus(gpus(1))
    fails = False
    eyes = PrometheusEyes(clock, lambda *asked: Unknown("down") if fails else answers(*asked), scrape_interval_s=10.0)
    assert eyes.read().covers_s == 20.0
    clock.now_s += 40.0
    assert eyes.read().covers_s == 40.0
    fails = True
    clock.now_s += 40.0
    assert eyes.read().trouble == Unknown("down")
    fails = False
    clock.now_s += 40.0
    assert eyes.read().covers_s == 80.0
    clock.now_s += 1.0
    assert eyes.read().covers_s == 15.0  # at least an interval, and some of the next: scrapes are not on the second
    clock.now_s += 9000.0
    assert eyes.read().covers_s == 600.0
