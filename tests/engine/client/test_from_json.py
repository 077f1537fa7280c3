"""What the daemon says as JSON arrives as it was, with what is unknown; what makes no sense never does."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.core.activity import Activity
from fallow.core.board import Counting, FillerView, GuardView
from fallow.core.findings import Event
from fallow.core.gpu import Counters, MigPlace, Recent
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.interval import Card, Interval, Party
from fallow.core.money import Prices
from fallow.core.owner import Owner, OwnerKind
from fallow.core.protections import Everything, OneGpu, OneProcess, OneUser, Protection
from fallow.core.reservations import Claim
from fallow.core.unknown import NOT_ASKED, Unknown
from fallow.core.value import fields, replace
from fallow.engine.client import from_json
from fallow.interfaces.render import as_json, why_text
from fallow.interfaces.web import api_facts
from tests.engine.history.life import gpu_status, holder
from tests.reasons import said

RICH = replace(
    gpu_status(0, Activity.IDLE, holder(), holder(7, user=Unknown("gone"), owner=Owner(OwnerKind.SLURM, "12", "12"))),
    recent=Recent(14.0, 0.01, 0.5),
    counters=Counters(0.5, Unknown("too old"), 0.0, 0.1),
    mig=MigPlace(1, "GPU-parent", Unknown("why")),
    throttled_by=("power cap",),
    claim=Claim(False, 5, "ada", "python", 1.5),
    for_s=12.5,
)
POOR = replace(
    gpu_status(1, Activity.UNKNOWN),
    **{name: Unknown(f"no {name}") for name in ("uuid", "name", "utilization", "memory", "holders", "temperature_c")},
    mig=MigPlace(0, Unknown("hidden"), NOT_ASKED),
    claim=Unknown("its folder cannot be read"),
)
UNSEEN = replace(gpu_status(2, Activity.IDLE), claim=Claim(shared=True))
FILLED = replace(
    gpu_status(3, Activity.FILLED, holder(9)),
    filler=Claim(shared=False, user="fold", command="fah"),
    filler_pids=(9,),
    waiting=2,
)
STATUS = Status("box", False, 1_700_000_000.123, (RICH, POOR, UNSEEN, FILLED))


def travelled(facts: object) -> object:
    return json.loads(json.dumps(facts, allow_nan=False))


def test_a_status_says_the_same_after_the_journey() -> None:
    arrived = from_json.status(travelled(as_json.status(STATUS)))  # type: ignore[arg-type]
    assert as_json.status(arrived) == as_json.status(STATUS)
    for here, there in zip(arrived.gpus, STATUS.gpus, strict=True):
        assert why_text.gpu_now(here, 1.7e9) == why_text.gpu_now(there, 1.7e9)
        assert here.label == there.label


def test_no_unknown_is_lost_and_none_is_made() -> None:
    arrived = from_json.status(travelled(as_json.status(STATUS)))  # type: ignore[arg-type]
    untold = {"minor", "performance_state", "trouble"}
    for here, there in zip(arrived.gpus, STATUS.gpus, strict=True):
        for name in set(fields(GpuStatus)) - untold:
            assert isinstance(getattr(here, name), Unknown) is isinstance(getattr(there, name), Unknown), name
    parent = arrived.gpus[1].mig
    assert parent is not None
    assert parent.parent_uuid == Unknown("hidden"), "a protection on the card is looked up by it"


def of(kind: type) -> Any:
    return lambda facts: from_json.value(kind, facts)


OTHERS = [
    (api_facts.event, from_json.event, Event(3, 1.5, "verdict", "GPU 0", "idle", "because", (("load", "0%"),))),
    *(
        (as_json.protection_facts, from_json.protection, Protection(1, target, 5.0, "why", "ada"))
        for target in (Everything(), OneGpu("u"), OneProcess(1, 2), OneUser("ada"))
    ),
    (as_json.protection_facts, from_json.protection, Protection(1, Everything(), math.inf, "", "ada")),
    (api_facts.plain, from_json.interval, Interval("u", 0, 10, 5, Activity.STUCK, (Party("a", "b"),))),
    (api_facts.plain, of(Card), Card("u", "0", "H100", "box", True)),
    (api_facts.plain, of(Prices), Prices(2.5, (("H100", 3.0),), "EUR")),
    (api_facts.plain, from_json.counting, Counting("r", "s", ("u",), ("pid:1@2",), "idle", 1.0, "ask", 2.0)),
    (api_facts.plain, from_json.counting, Counting("r", "s", (), (), "idle", 1.0, "nothing", math.inf, 3.0, "x")),
    (api_facts.plain, of(FillerView), FillerView("f", ("0",), ("u",), "filled", said("why"), 1.0, None, 2, 0.5)),
    (api_facts.plain, of(GuardView), GuardView("g", "armed", said("why"), ("u",))),
]


@pytest.mark.parametrize(("write", "read", "value"), OTHERS, ids=lambda each: type(each).__name__)
def test_everything_else_arrives_as_it_was(write: Any, read: Any, value: object) -> None:
    assert read(travelled(write(value))) == value


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.sampled_from(["host", "simulated", "at", "gpus", "unknown", "claim"]), below, max_size=6)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["host", "simulated", "at", "gpus"]), json_like, max_size=4))
def test_nonsense_is_an_error_that_the_client_expects(facts: dict[str, object]) -> None:
    try:
        from_json.status(facts)
    except (KeyError, TypeError, ValueError, AttributeError):
        return
