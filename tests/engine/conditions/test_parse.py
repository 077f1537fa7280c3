"""Conditions of jobs as people write them: each wrong one gets one sentence with what to write."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.core.errors import WrongUsage
from fallow.engine.conditions.parse import (
    Cpu,
    HttpBusy,
    Jupyter,
    Touched,
    Url,
    parse_job_condition,
)
from tests.length import PLANS


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("cpu:50", Cpu(0.5)),
        ("cpu: 200%", Cpu(2.0)),
        ("jupyter", Jupyter(300.0)),
        ("jupyter:10m", Jupyter(600.0)),
        ("http:http://localhost/busy?token=x", HttpBusy(Url(80, "/busy?token=x", False, "http://localhost:80/busy"))),
        ("http:https://127.0.0.1", HttpBusy(Url(443, "/", True, "https://127.0.0.1:443/"))),
        ("file:/srv/a:b/beat", Touched("/srv/a:b/beat", None)),
        ("file:/srv/beat:10m", Touched("/srv/beat", 600.0)),
    ],
)
def test_what_is_right_means_what_it_says(text: str, means: object) -> None:
    assert parse_job_condition(text) == means


@pytest.mark.parametrize(
    ("text", "sentence", "way"),
    [
        ("cpu", "'cpu' says only half of it", "write cpu:50"),
        ("cpu:x", "'x' is not a per cent of one core", "write cpu:50, or cpu:200 for two cores"),
        ("cpu:-5", "'-5' is not a per cent of one core", "write cpu:50"),
        ("jupyter:5", "'5' has no unit", "5m"),
        ("jupyter:0s", "'0s' is no time", "jupyter:10m"),
        ("htp:http://127.0.0.1", "is not a condition of a job", "did you mean http:http://127.0.0.1?"),
        ("users", "'users' is not a condition of a job", "write cpu:50"),
        ("http://127.0.0.1/busy", "is only an address", "write http:http://127.0.0.1/busy"),
        ("https://127.0.0.1/busy", "is only an address", "write http:https://127.0.0.1/busy"),
        ("http:http://example.org/", "'example.org' is another machine", "write http:http://127.0.0.1:8000/busy"),
        ("http:http://127.0.0.1@example.org/", "is not asked", "write http:http://127.0.0.1:8000/busy"),
        ("http:http://[::1]:80/", "is not asked", "write http:http://127.0.0.1:8000/busy"),
        ("http:ftp://127.0.0.1/", "is not an address", "http://127.0.0.1:8000/busy"),
        ("http:http://127.0.0.1:99999/", "there is no port 99999", "65535"),
        ("http:9001", "'9001' is not an address", "write http:http://127.0.0.1:9001/busy"),
        ("http:example.org", "'example.org' is not an address", "write http:http://127.0.0.1:8000/busy"),
        ("cpu:0", "'cpu:0' is always so", "write more than 0, as cpu:50"),
        ("cpu:100001", "'100001' is not a per cent of one core", "write cpu:50"),
        ("CPU:50", "'CPU:50' is not a condition of a job", "did you mean cpu:50?"),
        ("not cpu:50", "'not cpu:50' is not a condition of a job", "did you mean cpu:50?"),
        ("file:beat", "'beat' is not the whole path of a file", "file:/srv"),
        ("file:/beat:5", "'5' has no unit", "5m"),
        ("file:/be\nat", "has control characters", "write cpu:50"),
    ],
)
def test_what_is_wrong_gets_one_sentence_and_what_to_write(text: str, sentence: str, way: str) -> None:
    with pytest.raises(WrongUsage) as caught:
        parse_job_condition(text)
    assert sentence in caught.value.sentence
    assert way in caught.value.way
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("text", ["http:8000", "http:example.org", "cpu:0", "CPU:50", "cpu"])
def test_the_advice_is_right_itself(text: str) -> None:
    with pytest.raises(WrongUsage) as caught:
        parse_job_condition(text)
    advice = caught.value.way.removeprefix("did you mean ").removeprefix("write ").removeprefix("more than 0, as ")
    parse_job_condition(advice.removesuffix("?"))


@settings(max_examples=PLANS)
@given(
    st.sampled_from(["cpu:", "jupyter:", "http:http://127.0.0.1", "file:/", ""]),
    st.text(max_size=40),
)
def test_nothing_that_is_written_raises_anything_else(kind: str, rest: str) -> None:
    with suppress(WrongUsage):
        parse_job_condition(kind + rest)
