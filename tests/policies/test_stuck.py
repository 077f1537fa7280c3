"""A hang at 100 % is told from work, from copies and from rest; in doubt it is not one."""

import re
from typing import Any

import pytest
from hypothesis import given

from fallow.core.actions import Ask, Kill
from fallow.core.gpu import Counters, Gpu, Holder, Recent
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.policies.hang import HangFinding, Look, hang_at_a_glance, look_for_hang, rest_power_w
from fallow.policies.stuck import Decision, State, StuckRules, glanced, step
from tests.core.gpus import GIB, NOT_SUPPORTED
from tests.policies.histories import (
    PROTECTED,
    STUCK_KINDS,
    TICK_S,
    History,
    Kind,
    Stretch,
    first,
    histories,
    key,
    looks,
    modest,
    run_stuck,
    seen_s,
    snapshot,
    stuck_rules,
)
from tests.policies.loads import (
    COPIES,
    FIVE_PER_CENT,
    FLAT_OUT,
    HANGS,
    HOLDS,
    NOTHING,
    ONE_THREAD,
    PID,
    SPINS,
    TABLE,
    WORKING,
    Load,
    card,
)

REST_W = 128.0
MINE = frozenset({PID})
NO_COUNTERS: dict[str, Any] = {"counters": NOT_SUPPORTED}
NO_POWER: dict[str, Any] = {"power_w": NOT_SUPPORTED}
NO_BUS: dict[str, Any] = {"pcie_rx_bytes_per_s": NOT_SUPPORTED, "pcie_tx_bytes_per_s": NOT_SUPPORTED}
WINDOW = StuckRules(timeout_s=10.0)


def looked(load: Load, rest_w: float | None = REST_W, **changes: Any) -> HangFinding:
    return look_for_hang(card(load, **changes), MINE, rest_w)


def watched(*loads: Gpu, rules: StuckRules = WINDOW, ticks: int = 20) -> Decision:
    """A while of the same cards, after they were seen at rest."""
    uuids = [f"GPU-{gpu.index:08x}-0000-4000-8000-000000000000" for gpu in loads]
    resting = [card(HOLDS, index=gpu.index, uuid=uuid) for gpu, uuid in zip(loads, uuids, strict=True)]
    decision = step(State(), snapshot(0.0, *resting), [key(uuid) for uuid in uuids], rules)
    for tick in range(1, ticks + 1):
        decision = step(decision.state, snapshot(tick * TICK_S, *loads), [key(uuid) for uuid in uuids], rules)
    return decision


@pytest.mark.parametrize("load", TABLE, ids=lambda load: load.name)
@pytest.mark.parametrize("blind", [{}, NO_COUNTERS, NO_POWER], ids=["all signals", "no counters", "no power"])
def test_of_the_measured_loads_only_the_two_spins_are_stuck(load: Load, blind: dict[str, Any]) -> None:
    decision = watched(card(load, **blind))
    assert decision.verdict.finding == ("stuck" if load in (ONE_THREAD, SPINS) else "clear")
    assert not decision.actions, "it only reports"


@pytest.mark.parametrize("load", list(dict.fromkeys((*TABLE, *WORKING))), ids=lambda load: load.name)
@pytest.mark.parametrize(
    "blind",
    [{}, NO_COUNTERS, {"recent": NOT_SUPPORTED}, {"recent": NOT_SUPPORTED, **NO_COUNTERS}, {"trouble": "it is lost"}],
    ids=["all signals", "no counters", "no samples", "neither", "lost"],
)
def test_a_glance_says_what_a_look_says_and_comes_to_the_same_state_without_a_verdict(
    load: Load, blind: dict[str, Any]
) -> None:
    gpu = card(load, **blind)
    before = State(at_s=1.0, rest_w={str(gpu.uuid): REST_W + 1}, hung_s=5.0)
    decision = step(before, snapshot(2.0, gpu), [key(gpu.uuid)], WINDOW)
    glance = hang_at_a_glance(gpu)
    if glance is None:
        assert load.utilization >= 0.95, "what is not full is never looked at further"
    else:
        assert decision.verdict.finding == ("clear" if glance is Look.WORKS else "unknown")
        assert glanced(before, gpu, str(gpu.uuid), 2.0, glance) == decision.state


@pytest.mark.parametrize(
    ("load", "look"),
    [
        (NOTHING, Look.QUIET),
        (HOLDS, Look.QUIET),
        *((hang, Look.HUNG) for hang in HANGS),
        (FLAT_OUT, Look.WORKS),
        (FIVE_PER_CENT, Look.WORKS),
        (COPIES, Look.WORKS),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_each_measured_load_is_what_it_is(load: Load, look: Look) -> None:
    assert looked(load).look is look
    assert looked(load, rest_w=None).look is look, "at the first look too, by the counters"


@pytest.mark.parametrize("load", [ONE_THREAD, SPINS, COPIES], ids=lambda load: load.name)
def test_by_power_alone_a_hang_and_copies_look_the_same_and_neither_is_accused(load: Load) -> None:
    assert looked(load, **NO_BUS, **NO_COUNTERS).look is Look.UNKNOWN


def test_without_power_and_counters_nothing_can_be_told() -> None:
    assert looked(SPINS, **NO_COUNTERS, **NO_POWER).look is Look.UNKNOWN


def test_power_alone_needs_to_have_seen_the_card_at_rest() -> None:
    assert looked(SPINS, rest_w=None, **NO_COUNTERS).look is Look.UNKNOWN
    assert looked(FLAT_OUT, rest_w=None, **NO_COUNTERS).look is Look.UNKNOWN
    assert looked(SPINS, power_limit_w=NOT_SUPPORTED, **NO_COUNTERS).look is Look.UNKNOWN


def test_one_counter_that_is_missing_leaves_the_others_their_say() -> None:
    half = Counters(NOT_SUPPORTED, NOT_SUPPORTED, tensor=0.94, dram=NOT_SUPPORTED)
    assert looked(SPINS, counters=half, **NO_POWER).look is Look.WORKS
    quiet = Counters(NOT_SUPPORTED, NOT_SUPPORTED, tensor=0.0, dram=0.0)
    assert looked(SPINS, counters=quiet, **NO_POWER).look is Look.UNKNOWN


def test_one_instant_of_full_use_is_not_a_stretch_of_it() -> None:
    assert looked(SPINS, recent=Unknown("no sample")).look is Look.UNKNOWN
    assert looked(SPINS, recent=Recent(1.0, 0.6, 1.0)).look is Look.WORKS


def test_another_job_that_hangs_on_a_shared_card_is_not_this_one() -> None:
    both = (Holder(PID, GIB, utilization=0.0), Holder(7, GIB, utilization=0.99))
    assert looked(SPINS, holders=both).look is Look.QUIET
    assert look_for_hang(card(SPINS, holders=both), frozenset({7}), REST_W).look is Look.HUNG


def test_a_hang_on_a_shared_card_is_nobodys_while_the_driver_does_not_say_whose_it_is() -> None:
    """A neighbour's many processes that spin hide for a while whether the job ran; and one may not be there yet."""
    hidden = (Holder(PID, GIB, utilization=Unknown("not to be told yet")), Holder(7, GIB, utilization=0.99))
    assert looked(SPINS, holders=hidden).look is Look.UNKNOWN
    assert looked(SPINS, holders=(Holder(7, GIB, utilization=0.99),)).look is Look.UNKNOWN
    assert looked(SPINS, holders=(Holder(PID, GIB, utilization=Unknown("not supported")),)).look is Look.HUNG
    assert looked(SPINS, holders=()).look is Look.HUNG, "in a container the driver lists nobody"


def test_under_mps_a_hang_is_nobodys_where_several_users_share_the_card() -> None:
    mixed = Unknown("they share a GPU through MPS")
    ours, theirs = Holder(PID, GIB, user="ada"), Holder(7, GIB, user="mallory")

    def seen(*holders: Holder) -> str:
        gpu = card(SPINS, holders=holders)
        before = State(rest_w={str(gpu.uuid): REST_W})
        decision = step(before, snapshot(1.0, gpu), [key(gpu.uuid)], WINDOW, mixed)
        return decision.verdict.finding

    assert seen(ours, Holder(8, GIB, user="ada")) == "suspect"
    assert seen(ours, theirs) == "unknown"


def test_rest_is_the_least_power_seen_while_held_and_quiet() -> None:
    assert rest_power_w(card(HOLDS), None) == 128
    assert rest_power_w(card(HOLDS, power_w=120.0), 128.0) == 120
    assert rest_power_w(card(HOLDS, power_w=150.0), 128.0) == 128


@pytest.mark.parametrize("load", [NOTHING, FLAT_OUT, FIVE_PER_CENT, SPINS], ids=lambda load: load.name)
def test_nothing_is_learned_from_a_card_that_works_or_that_nobody_holds(load: Load) -> None:
    assert rest_power_w(card(load), None) is None
    assert rest_power_w(card(HOLDS, **NO_POWER), None) is None


def test_it_says_which_signals_it_used() -> None:
    verdict = watched(card(SPINS)).verdict
    assert "power (140 W, 128 W at rest, limit 700 W)" in verdict.because
    assert dict(verdict.evidence) == {
        "GPU 0 utilization": "100% in the last 1.0 s",
        "GPU 0 power": "140 W, 128 W at rest, limit 700 W",
        "GPU 0 hardware counters": ("SM activity 99.9000%, tensor 0.0000%, floating point 0.0000%, memory 0.0000%"),
        "GPU 0 PCIe bus": "0.0 MB/s in, 0.0 MB/s out",
    }
    assert "counters" not in watched(card(SPINS, **NO_COUNTERS)).verdict.because


@pytest.mark.parametrize("load", WORKING, ids=lambda load: load.name)
@pytest.mark.parametrize("rest_w", [None, 128.0])
def test_no_work_that_was_measured_looks_like_a_hang_even_at_the_first_look(load: Load, rest_w: float | None) -> None:
    """F12: not copies, not kernels bound by their launches, not fp64, whether or not the card was seen at rest."""
    assert looked(load, rest_w=rest_w).look is not Look.HUNG


@pytest.mark.parametrize("load", HANGS, ids=lambda load: load.name)
def test_more_on_the_bus_than_is_polled_there_is_work_that_no_counter_shows(load: Load) -> None:
    """Whole numbers that are read from the host's memory."""
    assert looked(load, pcie_rx_bytes_per_s=25e9).look is Look.WORKS


@pytest.mark.parametrize("load", HANGS, ids=lambda load: load.name)
@pytest.mark.parametrize("counter", ["tensor", "floating", "dram"])
def test_the_least_work_that_a_counter_shows_is_no_hang(load: Load, counter: str) -> None:
    gpu = card(load)
    assert not isinstance(gpu.counters, Unknown)
    least = {"tensor": 1e-6, "floating": 1e-6, "dram": 1e-3}[counter]
    worked = replace(gpu, counters=replace(gpu.counters, **{counter: least}))
    assert look_for_hang(worked, MINE, REST_W).look is Look.WORKS


def test_in_a_collective_that_waits_for_ever_the_one_who_never_came_is_quiet() -> None:
    spinning = [card(SPINS, index=index, uuid=f"GPU-{index:08x}-0000-4000-8000-000000000000") for index in range(3)]
    absent = card(HOLDS, index=3, uuid="GPU-00000003-0000-4000-8000-000000000000")
    working = card(FLAT_OUT, index=3, uuid=absent.uuid)
    unseen = card(SPINS, index=3, uuid=Unknown("x"))
    assert watched(*spinning, absent).verdict.finding == "stuck"
    assert watched(*spinning, working).verdict.finding == "clear"
    assert watched(*spinning, unseen).verdict.finding == "unknown"


def test_a_hold_stops_the_acting_and_not_the_seeing() -> None:
    rules = StuckRules(timeout_s=4.0, acts=True)
    gpu = card(SPINS)
    decision = watched(gpu, rules=rules, ticks=3)
    for at_s in (4.0, 5.0, 6.0):
        decision = step(decision.state, snapshot(at_s, gpu), [key(gpu.uuid)], rules, MINE, leave_alone=PROTECTED)
    assert decision.verdict.finding == "stuck"
    assert not decision.actions


@modest
@given(histories(STUCK_KINDS), stuck_rules)
def test_only_a_hang_that_was_witnessed_for_the_whole_window_is_acted_on(history: History, rules: StuckRules) -> None:
    events, decisions = run_stuck(history, rules)
    order = "".join(type(event.action).__name__[0] for event in events)
    assert re.fullmatch(r"(WC)*(W(AK?)?)?", order)
    asked_s = first(events, Ask)
    if asked_s is not None:
        cleared_s = max(
            (x.at_s for x in looks(history) if x.kind in (Kind.BUSY, Kind.IDLE) and x.at_s < asked_s), default=0
        )
        assert seen_s(history, Kind.HUNG, asked_s) - seen_s(history, Kind.HUNG, cleared_s) >= rules.timeout_s
    for look, decision in zip(looks(history), decisions, strict=True):
        assert look.kind is not Kind.UNKNOWN or decision.verdict.finding == "unknown"


@modest
@given(histories(STUCK_KINDS), stuck_rules)
def test_a_hang_that_lasts_is_always_found(history: History, rules: StuckRules) -> None:
    events, decisions = run_stuck([*history, Stretch(Kind.HUNG, 60)], rules)
    assert decisions[-1].verdict.finding == "stuck"
    assert first(events, Kill) is not None


@modest
@given(histories(STUCK_KINDS), stuck_rules)
def test_the_clock_set_back_or_forward_changes_nothing(history: History, rules: StuckRules) -> None:
    def mad(at_s: float) -> float:
        return 1e9 + at_s + (3600 if int(at_s) % 3 else -3600)

    assert run_stuck(history, rules) == run_stuck(history, rules, mad)
