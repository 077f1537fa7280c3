"""What the daemon counts adds up, and cannot grow without bound."""

import pytest

from fallow.core.activity import Activity, Finding
from fallow.core.gpu import Gpu, Holder
from fallow.core.gpu_status import Status, seen
from fallow.core.unknown import Unknown
from fallow.engine.history.counters import Tally
from tests.core.gpus import held, idle
from tests.reasons import said

UUID = str(idle(0).uuid)


def status(gpu: Gpu, activity: Activity) -> Status:
    return Status("host", False, 0.0, (seen(gpu, Finding(activity, said("as drawn")), 0.0, None),))


def test_the_seconds_of_a_card_add_up_to_the_time_seen_and_gaps_count_zero() -> None:
    tally = Tally(longest_gap_s=3.0)
    shared = held(0, holders=(Holder(1, 0, user="ada"), Holder(2, 0, user="bob"), Holder(3, 0, user="bob")))
    for at_s, (gpu, activity) in enumerate([(idle(0), Activity.FREE)] * 5 + [(shared, Activity.BUSY)] * 10):
        tally.witness(status(gpu, activity), float(at_s))
    tally.witness(status(idle(0), Activity.FREE), 1000.0)
    counted = tally.counts().activity_s
    assert counted == {(UUID, "free", "-"): 4.0, (UUID, "busy", "ada"): 5.0, (UUID, "busy", "bob"): 5.0}


def test_yields_are_counted_up_to_each_bound() -> None:
    tally = Tally()
    for seconds in (0.02, 0.05, 0.3, 99.0):
        tally.yielded("sweep", seconds)
    found = tally.counts().yields["sweep"]
    assert found.counts == (2, 2, 2, 3, 3, 3, 3, 3, 3)
    assert (found.total, found.sum_s) == (4, pytest.approx(99.37))


def test_unknowns_are_counted_by_reason_and_what_nobody_asked_is_not_unknown() -> None:
    tally = Tally()
    for number in range(10_000):
        tally.witness(status(idle(0, memory=Unknown(f"reason {number}")), Activity.UNKNOWN), float(number))
    counted = tally.counts().unknowns
    assert counted["memory", "reason 0"] == 1
    assert len(counted) <= 501
    assert sum(counted.values()) == 10_000
    assert all(name in ("memory", "any") for name, _ in counted)


def test_what_was_handed_out_does_not_change_any_more() -> None:
    tally = Tally()
    tally.action("start", "done")
    before = tally.counts()
    tally.action("start", "done")
    assert (before.actions, tally.counts().actions) == ({("start", "done"): 1}, {("start", "done"): 2})


def test_users_are_counted_by_name_up_to_a_number_and_the_rest_together() -> None:
    """Weak: metric series per uid are never dropped"""
    tally = Tally(longest_gap_s=3.0)
    for number in range(1, 5_001):
        gpu = held(0, holders=(Holder(1, 0, user=f"u{number}"),))
        tally.witness(status(gpu, Activity.BUSY), float(number))
    tally.witness(status(idle(0), Activity.FREE), 5_001.0)
    counted = tally.counts().activity_s
    assert len(counted) == 102
    assert counted[UUID, "busy", "other"] == 4_900.0
    assert counted[UUID, "free", "-"] == 1.0, "nobody is no user"
    assert sum(counted.values()) == 5_000.0
