"""Whatever servers answer, a kernel or a container is never taken for another one, and nothing raises."""

import json
import os
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.core.http import Endpoint, HttpAnswer
from fallow.core.owner import OwnerFacts
from fallow.core.unknown import Unknown
from fallow.readers.owners import containers, jupyter
from fallow.readers.proc import Proc
from tests.length import PLANS

KERNEL, OTHER = "14489c42-a288-4893-b758-511312669828", "24489c42-a288-4893-b758-511312669828"
CONTAINER = "c" * 64
SERVER = jupyter.JupyterServer(Endpoint(port=1), "/", "token", "/home/ada")
LATE = Unknown("the server at port 1 did not answer within 2 s")

kernels = st.fixed_dictionaries(
    {"id": st.sampled_from([KERNEL, OTHER, 7, None])},
    optional={
        "execution_state": st.sampled_from(["busy", "idle", "starting", "dead", "\x1b[2J", 3, None]),
        "last_activity": st.sampled_from(["2026-11-15T21:28:26.304057Z", "yesterday", "", 5, None]),
    },
)
sessions = st.lists(
    st.fixed_dictionaries(
        {}, optional={"kernel": st.one_of(kernels, st.none()), "path": st.one_of(st.text(), st.none())}
    ),
    max_size=3,
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
inspected = st.fixed_dictionaries(
    {},
    optional={
        "Id": st.sampled_from([CONTAINER, "d" * 64, 5, None]),
        "Name": st.one_of(st.text(max_size=20), st.none()),
        "State": st.one_of(
            anything,
            st.fixed_dictionaries({"Pid": st.sampled_from([1, os.getpid(), 0, -1, float("inf"), "x", None])}),
        ),
        "Config": st.one_of(anything, st.fixed_dictionaries({}, optional={"Labels": anything, "Image": anything})),
    },
)


def answers(bodies: st.SearchStrategy[object]) -> st.SearchStrategy[HttpAnswer | Unknown]:
    """Answers in time and late, whole and cut, of every status."""
    text = bodies.map(lambda body: json.dumps(body).encode())
    raw = st.one_of(
        text, text.map(lambda body: body[: len(body) // 2]), st.binary(max_size=40), st.just(b"[" * 50000)
    )
    status = st.sampled_from([200, 200, 200, 204, 301, 401, 403, 404, 500, 503])
    return st.one_of(st.just(LATE), st.builds(HttpAnswer, status, raw))


class Answers:
    """A server that gives these answers, one after the other."""

    def __init__(self, *given_answers: HttpAnswer | Unknown) -> None:
        self._answers = list(given_answers)

    def __call__(
        self, to: Endpoint, method: str, target: str, headers: Mapping[str, str], limit_s: float
    ) -> HttpAnswer | Unknown:
        return self._answers.pop(0) if self._answers else LATE


@settings(max_examples=PLANS)
@given(answers(st.one_of(sessions, anything)), answers(st.one_of(st.lists(kernels, max_size=3), anything)))
def test_no_answer_makes_a_kernel_somebody_elses_or_raises(
    first: HttpAnswer | Unknown, second: HttpAnswer | Unknown
) -> None:
    server = Answers(first, second)
    found = jupyter.facts_of(KERNEL, lambda what: jupyter.listed(server, SERVER, what, 2.0))
    if isinstance(found, OwnerFacts):
        assert KERNEL.encode() in b"".join(each.body for each in (first, second) if isinstance(each, HttpAnswer))
        assert found.name.isprintable()
        assert isinstance(found.busy, bool | Unknown)


@settings(max_examples=PLANS)
@given(answers(st.one_of(inspected, anything)))
def test_no_answer_makes_a_container_somebody_elses_or_raises(answer: HttpAnswer | Unknown) -> None:
    """This process is in no container, so no answer can make it a container's."""
    engine = iter([Endpoint("/run/docker.sock")])
    found = containers.ask_about(Answers(answer), Proc(), os.getpid(), CONTAINER, engine, 2.0)
    assert isinstance(found, Unknown)
