"""Values travel as JSON and arrive as they were; what is none of them is refused."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.core.activity import Activity
from fallow.core.findings import Event
from fallow.core.gpu import (
    Counters,
    Memory,
    Place,
    Recent,
)
from fallow.core.gpu_status import Status
from fallow.core.interval import Card, Interval, Party
from fallow.core.protections import (
    Everything,
    OneGpu,
    OneProcess,
    OneUser,
    Protection,
)
from fallow.core.reservations import Claim
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value
from fallow.core.wire import (
    VERSION,
    Garbled,
    packed,
    unpacked,
    version_of,
)
from tests.engine.history.life import gpu_status, holder

GPU = replace(
    gpu_status(0, Activity.IDLE, holder(), holder(7, user=Unknown("gone"), slurm_job="12")),
    recent=Recent(14.0, 0.01, 0.5),
    counters=Counters(0.5, Unknown("too old"), 0.0, 0.1),
    mig=Place(1, "GPU-parent", Unknown("why")),
    throttled_by=("power cap",),
    claim=Claim(False, 5, "ada", "python", 1.5),
    for_s=12.5,
)
VALUES = [
    Status("box", False, 1.5, (GPU, gpu_status(1, Activity.FREE))),
    Event(3, 1.5, "verdict", "GPU 0", "idle", "because", (("load", "0%"),)),
    *(
        Protection(1, target, 5.0, "why", "ada")
        for target in (Everything(), OneGpu("u"), OneProcess(1, 2), OneUser("ada"))
    ),
    Protection(1, Everything(), math.inf, "", "ada"),
    Interval("u", 0, 10, 5, Activity.STUCK, (Party("ada", "job"), Party("?", "?"))),
    Card("u", "0", "H100", "box", True),
    (),
    None,
    True,
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_what_is_packed_arrives_as_it_was(value: object) -> None:
    assert unpacked(json.loads(json.dumps(packed(value), allow_nan=False))) == value


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.sampled_from(["is", "why", "pid", "of", "gpus"]), below, max_size=3)
        | st.fixed_dictionaries(
            {"is": st.sampled_from(["Unknown", "Holder", "Sight", "Activity", "os"]), "why": below}
        )
    ),
    max_leaves=12,
)


@given(json_like)
def test_anything_else_is_a_plain_value_or_garbled_and_never_another_error(what: object) -> None:
    try:
        unpacked(what)
    except Garbled:
        return


def test_what_does_not_travel_is_refused_where_it_is_packed() -> None:
    with pytest.raises(TypeError, match="does not travel"):
        packed(object())


def test_nested_without_end_is_garbled() -> None:
    deep: object = None
    for _ in range(100):
        deep = [deep]
    with pytest.raises(Garbled, match="too deep"):
        unpacked(deep)


@value
class _Memory:
    """What a daemon of another version may mean by a Memory."""

    total_bytes: int
    used_bytes: int
    free_bytes: int
    reserved_bytes: int
    shared_bytes: int


def test_the_version_tells_the_fields_apart() -> None:
    """F22: a value with another field, or another activity, is another language."""
    kinds, activities = {"Unknown": Unknown, "Memory": Memory}, ["free", "busy"]
    ours = version_of(kinds, activities)
    others = [
        version_of({**kinds, "Memory": _Memory}, activities),
        version_of({"Unknown": Unknown}, activities),
        version_of(kinds, [*activities, "lent"]),
    ]
    assert len({ours, *others}) == 4
    assert version_of(dict(kinds), iter(activities)) == ours
    assert VERSION not in (ours, *others)
