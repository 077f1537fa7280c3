"""`fallow status --mine`, `--idle` and `--sort`: which GPUs are shown, in which order, and what is not known."""

import json
import os
from typing import Any

import pytest

from fallow.core.activity import Activity, Finding
from fallow.core.gpu import Holder
from fallow.core.gpu_status import GpuStatus, seen
from fallow.core.reasons import Reason
from fallow.core.reservations import Claim
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.interfaces.cli.status_choice import chosen
from tests.conftest import Fallow
from tests.core.gpus import GIB, held, idle
from tests.standin import Process, World

HIDDEN = Unknown("not shown to us")


def gpu(
    index: int, activity: Activity, for_s: float | None = None, user: str | Unknown = "bob", **changes: Any
) -> GpuStatus:
    claim = changes.pop("claim", None)
    one = held(index, holders=(Holder(100 + index, GIB, user=user),))
    return seen(replace(one, **changes), Finding(activity, Reason("not_judged")), for_s, claim)


MACHINE = (
    gpu(0, Activity.BUSY, 5.0, "bob", utilization=0.9),
    gpu(1, Activity.IDLE, 60.0, "carol"),
    seen(idle(2), Finding(Activity.FREE, Reason("not_judged")), 7.0, None),
    gpu(3, Activity.STUCK, 600.0, "alice", utilization=1.0, memory=held(memory_gib=40).memory),
    gpu(4, Activity.UNKNOWN, None, holders=HIDDEN, utilization=HIDDEN, memory=HIDDEN),
    gpu(5, Activity.IDLE, None, holders=(), claim=Claim(False, 7, "alice", "sh")),
)


def labels(*, mine: bool = False, idle: bool = False, sort: str | None = None) -> tuple[str, str | None]:
    found, remark = chosen(MACHINE, "alice", mine=mine, idle=idle, sort=sort)
    return "".join(gpu.label for gpu in found), remark


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        (None, "012345"),
        ("index", "012345"),
        ("memory", "301524"),
        ("utilization", "301254"),
        ("idle", "315024"),
        ("user", "350142"),
    ],
)
def test_the_most_comes_first_and_what_is_not_known_behind_what_is(sort: str | None, order: str) -> None:
    assert labels(sort=sort) == (order, None)


def test_only_mine_or_only_unused_gpus_are_chosen_and_what_cannot_be_told_is_said() -> None:
    assert labels(mine=True) == ("35", "GPU 4: not known whether of alice")
    assert labels(idle=True) == ("135", "GPU 4: not known whether unused")
    assert labels(idle=True, mine=True, sort="idle")[0] == "35"
    nothing = ((), "no job and no claim of alice is on a GPU")
    assert chosen(MACHINE[:3], "alice", mine=True, idle=False, sort=None) == nothing


def test_the_first_line_and_the_counts_are_those_of_all_gpus(world: World, fallow: Fallow) -> None:
    world[1].compute = [Process(os.getpid(), GIB)]
    world[1].memory_used = GIB
    words = ("--mine", "--idle", "--sort", "memory")
    first, _, *rest = fallow("status", *words).stdout.splitlines()
    assert first.endswith(": 8 x H100: 7 available (7 free), 1 idle")
    assert [line.split()[0] for line in rest] == ["1"]
    facts = json.loads(fallow("status", "--json", *words).stdout)
    assert (facts["available"], facts["counts"]["idle"]) == (7, 1)
    assert [each["index"] for each in facts["gpus"]] == [1]
