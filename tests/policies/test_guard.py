"""The guard on generated histories: it waits for work, for its end, tells everyone, and acts once."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.core.actions import (
    Announce,
    CallOff,
    EndGuard,
    HostAction,
    Notify,
    PowerOff,
    Reboot,
    RunCommand,
    SendSignal,
)
from fallow.core.findings import Outcome
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.policies.guard import Across, GuardRules, Phase, State, step
from tests.policies.histories import (
    ACTIONS,
    GUARD_KINDS,
    TICK_S,
    GuardRun,
    Hands,
    History,
    Kind,
    Stretch,
    actions_of,
    first,
    guard_rules,
    histories,
    looks,
    modest,
    run_guard,
    seen_s,
)

RULES = GuardRules(ACTIONS, arm_for_s=3.0, idle_for_s=5.0, countdown_s=2.0)
WORK = Stretch(Kind.BUSY, 40)
QUIET = Stretch(Kind.IDLE, 120)
ALL_ACTIONS = [Notify, RunCommand, PowerOff]
BLIND = Unknown("the card does not answer")


def clumsy(script: list[int]) -> Hands:
    """Hands that fail so often at each deed before they manage it."""

    def hands(action: HostAction, attempt: int) -> Outcome:
        failed = attempt <= script[ACTIONS.index(action)]
        return Outcome(ok=not failed, words="no permission" if failed else "done")

    return hands


def refuses(_action: HostAction, _attempt: int) -> Outcome:
    return Outcome(ok=False, words="no permission")


def run_on(run: GuardRun, loads: list[float | Unknown], ticks: int, blocker: str | Unknown | None = None) -> None:
    cards = {str(index): load for index, load in enumerate(loads)}
    for _ in range(ticks):
        at_s = (run.state.at_s or 0.0) + TICK_S
        run.tick(at_s, cards, [] if blocker is None else [blocker])


def test_work_then_quiet_then_a_countdown_then_the_deeds_in_order() -> None:
    events, states = run_guard([Stretch(Kind.BUSY, 10), Stretch(Kind.IDLE, 20)], RULES)
    assert [(event.at_s, type(event.action)) for event in events] == [
        (15.0, Announce),
        (17.0, Notify),
        (17.0, RunCommand),
        (17.0, PowerOff),
    ]
    assert states[-1].phase is Phase.ACTED


def test_each_action_says_why() -> None:
    events, _ = run_guard([Stretch(Kind.BUSY, 10), Stretch(Kind.IDLE, 20)], RULES)
    assert events[0].action == Announce(Reason("gpus_quiet", for_s=5.0), in_s=2.0)
    assert events[1].action == Notify("ntfy://quiet", reason=Reason("gpus_quiet", for_s=5.0))


def test_work_must_last_without_a_break_to_arm() -> None:
    blips = [Stretch(Kind.BUSY, 2), Stretch(Kind.IDLE, 1)] * 10
    assert {state.phase for state in run_guard(blips, RULES)[1]} == {Phase.IDLE}
    seen_in_part = [Stretch(Kind.BUSY, 2), Stretch(Kind.UNKNOWN, 1), Stretch(Kind.BUSY, 1)]
    assert run_guard(seen_in_part, RULES)[1][-1].phase is Phase.ARMED


def test_a_look_that_witnessed_nothing_leads_to_nothing_however_short_the_times() -> None:
    hasty = replace(RULES, arm_for_s=0.0, idle_for_s=0.0, countdown_s=0.0)
    for phase, load in ((Phase.IDLE, 0.9), (Phase.ARMED, 0.0), (Phase.COUNTDOWN, 0.0)):
        before = State(phase=phase, at_s=0.0)
        assert step(before, 1000.0, {"0": load}, [], hasty).state == replace(before, at_s=1000.0)
        assert step(before, 1.0, {"0": load}, [], hasty).state.phase is not phase


@pytest.mark.parametrize("sign", [Kind.BUSY, Kind.BLOCKED])
def test_work_or_a_hold_calls_the_countdown_off_and_the_quiet_starts_again(sign: Kind) -> None:
    history = [Stretch(Kind.BUSY, 5), Stretch(Kind.IDLE, 6), Stretch(sign, 1), Stretch(Kind.IDLE, 10)]
    events, _ = run_guard(history, RULES)
    assert [(event.at_s, type(event.action)) for event in events[:3]] == [
        (10.0, Announce),
        (12.0, CallOff),
        (17.0, Announce),
    ]


def test_a_blocker_that_cannot_be_read_pauses_and_sets_nothing_back() -> None:
    run = GuardRun(RULES)
    run_on(run, [0.9], 5)
    run_on(run, [0.0], 3)
    run_on(run, [0.0], 100, Unknown("who is logged in cannot be read"))
    assert run.state.seconds == 3.0
    run_on(run, [0.0], 2)
    assert run.state.phase is Phase.COUNTDOWN


@pytest.mark.parametrize(
    ("across", "loads", "acts"),
    [
        (Across.ALL, [0.0, 0.0, 1.0], False),
        (Across.ALL, [0.0, 0.04, 0.0], True),
        (Across.ANY, [0.0, 1.0, 1.0], True),
        (Across.ANY, [0.1, 1.0, 1.0], False),
        (Across.MEAN, [0.0, 0.0, 0.12], True),
        (Across.MEAN, [0.0, 0.0, 0.18], False),
        *((across, [0.0, 0.0, BLIND], False) for across in Across),
    ],
)
def test_quiet_is_judged_across_the_cards(across: Across, loads: list[float | Unknown], acts: bool) -> None:
    run = GuardRun(replace(RULES, across=across))
    run_on(run, [0.9, 0.9, 0.9], 5)
    run_on(run, loads, 20)
    assert bool(run.events) is acts


def test_with_one_card_unknown_another_that_works_is_still_work() -> None:
    run = GuardRun(RULES)
    run_on(run, [0.9, BLIND], 5)
    assert run.state.phase is Phase.ARMED
    run_on(run, [0.0, 0.0], 4)
    run_on(run, [0.5, BLIND], 1)
    assert run.state.seconds == 0.0


def test_with_any_a_card_that_was_never_used_does_not_end_the_others() -> None:
    run = GuardRun(replace(RULES, across=Across.ANY))
    run_on(run, [0.9, 0.0], 100)
    assert run.state.phase is Phase.IDLE


@modest
@given(histories(GUARD_KINDS), guard_rules)
def test_unknown_and_holds_never_lead_to_an_announcement_or_a_deed(history: History, rules: GuardRules) -> None:
    forbidden = {look.at_s for look in looks(history) if look.kind in (Kind.UNKNOWN, Kind.BLOCKED, Kind.BUSY)}
    events, _ = run_guard(history, rules)
    assert all(isinstance(event.action, CallOff) for event in events if event.at_s in forbidden)


@modest
@given(histories(GUARD_KINDS), guard_rules)
def test_nothing_is_done_before_its_witnessed_time(history: History, rules: GuardRules) -> None:
    announced_s: float | None = None
    for event in run_guard(history, rules)[0]:
        spoke = (Kind.BUSY, Kind.BLOCKED)
        against_s = max((x.at_s for x in looks(history) if x.kind in spoke and x.at_s <= event.at_s), default=0.0)
        match event.action:
            case Announce():
                assert seen_s(history, Kind.BUSY, event.at_s) >= rules.arm_for_s
                quiet_s = seen_s(history, Kind.IDLE, event.at_s) - seen_s(history, Kind.IDLE, against_s)
                assert quiet_s >= rules.idle_for_s
                announced_s = event.at_s
            case CallOff():
                announced_s = None
            case _:
                assert announced_s is not None, "nothing is done unannounced"
                counted_s = seen_s(history, Kind.IDLE, event.at_s) - seen_s(history, Kind.IDLE, announced_s)
                assert counted_s >= rules.countdown_s


@modest
@given(histories(GUARD_KINDS), guard_rules)
def test_work_and_enough_quiet_always_get_there_and_nothing_follows(history: History, rules: GuardRules) -> None:
    events, states = run_guard([*history, WORK, QUIET, *history, WORK, QUIET], rules)
    assert states[-1].phase is Phase.ACTED
    assert actions_of(events) == ALL_ACTIONS


@modest
@given(histories((Kind.BUSY, Kind.IDLE)), guard_rules)
def test_twice_the_tick_rate_changes_no_announcement_by_more_than_one_tick(
    history: History, rules: GuardRules
) -> None:
    whole = [*history, WORK, QUIET]
    slow_s = first(run_guard(whole, rules)[0], Announce)
    fast_s = first(run_guard(whole, rules, TICK_S / 2)[0], Announce)
    assert slow_s is not None
    assert fast_s is not None
    assert abs(slow_s - fast_s) <= TICK_S


KINDS: tuple[HostAction, ...] = (
    EndGuard(),
    SendSignal(),
    RunCommand("sync"),
    Notify("ntfy://a"),
    PowerOff(),
    Reboot(),
)


@modest
@given(st.permutations(KINDS[:-2]), st.sets(st.sampled_from([type(action) for action in KINDS])))
def test_whatever_fails_for_ever_all_that_follows_still_happens_in_its_order(
    actions: list[HostAction], failing: set[type[HostAction]]
) -> None:
    """F3: every order, and every choice of what fails."""
    actions = [*actions, PowerOff()]
    rules = replace(RULES, actions=tuple(actions), pause_s=1.0)
    run = GuardRun(rules, lambda action, _: Outcome(ok=type(action) not in failing, words="as it is scripted"))
    run_on(run, [0.9], 5)
    run_on(run, [0.0], 40)
    begun = actions_of(run.events)
    assert list(dict.fromkeys(begun)) == [type(action) for action in actions], "each had its turn, in order"
    for action in actions:
        tries = begun.count(type(action))
        if type(action) not in failing:
            assert tries == 1
        elif isinstance(action, PowerOff):
            assert tries > 5, "power is tried on"
        else:
            assert tries == 3, "the rest is given up"
    assert run.state.phase is (Phase.ACTING if PowerOff in failing else Phase.ACTED)
    assert len(run.told) == sum(kind in failing for kind in begun), "each failure once"


def test_a_deed_that_fails_is_tried_again_after_growing_pauses_and_told_each_time() -> None:
    run = GuardRun(replace(RULES, actions=(PowerOff(),)), refuses)
    run_on(run, [0.9], 5)
    run_on(run, [0.0], 350)
    tries = [event.at_s for event in run.events if isinstance(event.action, PowerOff)]
    assert [later - sooner for sooner, later in pairwise(tries)] == [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 60.0, 60.0]
    assert len(run.told) == len(tries), "once for each try, and not at every tick"
    assert run.told[:2] == [
        f"failed to turn the machine off: no permission; again in {time}" for time in ("10s", "20s")
    ]


def test_when_work_comes_back_a_deed_that_failed_waits_for_a_new_countdown_and_no_deed_is_repeated() -> None:
    run = GuardRun(RULES, clumsy([0, 1, 0]))
    run_on(run, [0.9], 5)
    run_on(run, [0.0], 8)
    run_on(run, [0.9], 1)
    run_on(run, [0.0], 20)
    assert [type(event.action) for event in run.events] == [
        Announce,
        Notify,
        RunCommand,
        CallOff,
        Announce,
        RunCommand,
        PowerOff,
    ]
