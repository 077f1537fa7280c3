"""Metrics in the text format of Prometheus, right ones and nonsense."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.core.unknown import Unknown
from fallow.engine.conditions.metric_text import sums
from tests.length import PLANS

VLLM = b"""\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a}b \\"quoted\\" {"} 2.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0 1700000000000
vllm:request_success_total{finished_reason="stop"} 1e+03
vllm:request_success_total{finished_reason="length"} .5
vllm:request_success_total_created 17
up 1
"""


def test_a_metric_is_summed_over_its_labels_and_no_other_is_taken_for_it() -> None:
    found = sums(VLLM, ("vllm:num_requests_running", "vllm:request_success_total", "up", "u"))
    assert found["vllm:num_requests_running"] == 3.0
    assert found["vllm:request_success_total"] == 1000.5
    assert found["up"] == 1.0
    assert found["u"] == Unknown("the server has no metric u")


def test_what_is_no_number_is_unknown_and_never_zero() -> None:
    for word in ("NaN", "+Inf", "-Inf", "", "x", "1_000", "0x10", "1e999", "²", "1" * 100, "1.2.3", "1e5000"):
        assert isinstance(sums(f'a 1\na{{b="c"}} {word}\n'.encode(), ("a",))["a"], Unknown), word
    assert isinstance(sums(b'a{b="c 1\n', ("a",))["a"], Unknown)


LINES = st.lists(
    st.one_of(
        st.binary(max_size=30),
        st.builds(
            "{}{} {}".format,
            st.sampled_from(["a", "a_total", "b", "#a", " a"]),
            st.sampled_from(["", "{}", '{x="y"}', '{x="}"}', '{x="\\""}', '{x="', "{", "}", "{{"]),
            st.one_of(st.floats().map(str), st.integers().map(str), st.text(max_size=6)),
        ).map(str.encode),
    ),
    max_size=6,
)


@settings(max_examples=PLANS)
@given(LINES, st.integers(0, 100))
def test_no_text_raises_and_a_sum_is_of_numbers_that_are_there(lines: list[bytes], cut: int) -> None:
    body = b"\n".join(lines)
    body = body[: len(body) - cut] if cut < 20 else body
    found = sums(body, ("a",))["a"]
    if isinstance(found, float):
        assert re.search(rb"(?m)^\s*a[\s{]", body), "it names the metric"
        assert abs(found) < float("inf")


def test_a_line_of_megabytes_is_read_in_linear_time() -> None:
    for label in (b'"' * (1 << 20), b"\\" * (1 << 20), b'x="y",' * (1 << 18), b"{" * (1 << 20)):
        assert isinstance(sums(b"a{" + label + b" 1", ("a",))["a"], Unknown)
