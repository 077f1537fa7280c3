"""The arbiter: a protection always wins, the protected are left alone, and in doubt the answer is no."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.core.actions import (
    Action,
    Announce,
    Ask,
    CallOff,
    CancelWarning,
    EndGuard,
    Kill,
    Notify,
    PowerOff,
    Reboot,
    RunCommand,
    SendSignal,
    Warn,
)
from fallow.core.errors import WrongUsage
from fallow.core.protections import (
    Affected,
    AffectedProcess,
    Everything,
    OneGpu,
    OneProcess,
    OneUser,
    Protection,
    Target,
    covers,
    parse_target,
)
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.policies.arbiter import ProtectRules, RateLimit, Taken, why_refused
from tests.policies.histories import modest

NOON, SIX = 1000.0, 2000.0
STUCK = Reason("stuck", for_s=20.0, readings="x")
IDLE = Reason("idle", for_s=20.0, readings="x")
HIDDEN = Unknown("another user's process cannot be read")
JOB = Affected(frozenset({"GPU-a"}), (AffectedProcess(12, 500, "alice", "/usr/bin/python train.py --big"),))
MACHINE = Affected(machine=True)
ACTIONS: tuple[Action, ...] = (
    Warn(IDLE, 1.0),
    Ask(IDLE),
    Kill(IDLE),
    Announce(IDLE, 1.0),
    EndGuard(),
    SendSignal(),
    RunCommand("sync"),
    Notify("ntfy://x"),
    PowerOff(),
    Reboot(),
)
targets = st.one_of(
    st.just(Everything()),
    st.sampled_from(["GPU-a", "GPU-b", "GPU-c"]).map(OneGpu),
    st.builds(OneProcess, st.integers(10, 15), st.integers(498, 503)),
    st.sampled_from(["alice", "bob", "carol"]).map(OneUser),
)


def protection(target: Target, until_wall_s: float = SIX) -> Protection:
    return Protection(1, target, until_wall_s, "a demo", "carol")


def refused(action: Action, touched: Affected, wall_s: float = NOON, **given: object) -> Reason | None:
    return why_refused(action, touched, at_s=100.0, wall_s=wall_s, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: type(action).__name__)
def test_under_a_hold_nothing_is_done(action: Action) -> None:
    protections = [protection(OneGpu("GPU-a"))]
    why = refused(action, JOB, protections=protections)
    assert why is not None
    assert why.kind == "protected"
    assert str(why) == "carol protects gpu:GPU-a (protection 1): a demo"
    why = refused(action, replace(JOB, labels=(("GPU-a", "3"),)), protections=protections)
    assert str(why) == "carol protects GPU 3 (protection 1): a demo", "as people call it, where that is known"


@pytest.mark.parametrize("action", [CancelWarning(IDLE), CallOff(IDLE)], ids=lambda action: type(action).__name__)
def test_what_only_calms_is_always_allowed(action: Action) -> None:
    assert refused(action, JOB, protections=[protection(Everything())], limit=RateLimit(0, 60.0)) is None


def test_a_hold_ends_by_itself() -> None:
    protections = [protection(Everything())]
    assert refused(Ask(IDLE), JOB, protections=protections, wall_s=SIX - 1) is not None
    assert refused(Ask(IDLE), JOB, protections=protections, wall_s=SIX) is None


@pytest.mark.parametrize(
    ("target", "covered"),
    [
        (Everything(), True),
        (OneGpu("GPU-a"), True),
        (OneGpu("GPU-b"), False),
        (OneProcess(12, 500), True),
        (OneProcess(12, 499), False),  # the pid has come again: somebody else
        (OneUser("alice"), True),
        (OneUser("bob"), False),
    ],
)
def test_a_hold_covers_what_it_names(target: Target, covered: bool) -> None:
    assert covers(protection(target), JOB) is covered
    assert covers(protection(target), MACHINE), "whoever turns the machine off leaves nothing alone"


def test_whose_identity_is_unknown_is_covered() -> None:
    hidden = Affected(processes=(AffectedProcess(12, HIDDEN, HIDDEN, HIDDEN),))
    assert covers(protection(OneUser("bob")), hidden)
    assert covers(protection(OneProcess(12, 500)), hidden)
    assert not covers(protection(OneProcess(13, 500)), hidden)


@modest
@given(targets)
def test_a_target_is_read_as_it_was_written(target: Target) -> None:
    assert parse_target(str(target)) == target


@pytest.mark.parametrize("text", ["", "everything", "all:3", "gpu:", "pid:12", "pid:x@1", "user:", "GPU-a"])
def test_what_cannot_be_held_is_refused_with_the_ways_to_write_it(text: str) -> None:
    with pytest.raises(WrongUsage, match="pid:PID@BIRTH"):
        parse_target(text)


@pytest.mark.parametrize(
    ("protect_rules", "protected"),
    [
        (ProtectRules(users=frozenset({"alice"})), True),
        (ProtectRules(users=frozenset({"bob"})), False),
        (ProtectRules(commands=("python",)), True),
        (ProtectRules(commands=("train*",)), True),
        (ProtectRules(commands=("*--big",)), True),
        (ProtectRules(commands=("jupyter*", "rain")), False),
    ],
)
def test_protected_users_and_commands_are_left_alone(protect_rules: ProtectRules, protected: bool) -> None:
    assert (refused(Ask(IDLE), JOB, protect_rules=protect_rules) is not None) is protected


@pytest.mark.parametrize(
    ("protect_rules", "sentence"),
    [
        (ProtectRules(users=frozenset({"alice"})), "is alice's, and [protect] users has 'alice'"),
        (ProtectRules(commands=("train*",)), "runs python, and [protect] commands has 'train*'"),
        (
            ProtectRules(groups=("staff",), groups_of=lambda _: frozenset({"staff"})),
            "is alice's, who is in a group that [protect] groups has: 'staff'",
        ),
    ],
)
def test_a_refusal_names_what_the_config_has_and_where(protect_rules: ProtectRules, sentence: str) -> None:
    assert str(refused(Ask(IDLE), JOB, protect_rules=protect_rules)).endswith(sentence)


@pytest.mark.parametrize(
    ("groups_of", "kind"),
    [
        (lambda _: frozenset({"staff"}), "protected_group"),
        (lambda _: frozenset(), None),
        (lambda _: Unknown("the database does not answer"), "groups_unknown"),
        (None, "groups_unknown"),
    ],
)
def test_users_in_protected_groups_are_left_alone_and_so_are_those_whose_groups_nobody_knows(
    groups_of: Callable[[str], frozenset[str] | Unknown] | None, kind: str | None
) -> None:
    rules = ProtectRules(groups=("staff",), groups_of=groups_of)
    why = refused(Ask(IDLE), JOB, protect_rules=rules)
    assert (None if why is None else why.kind) == kind
    hidden = Affected(processes=(AffectedProcess(12, 500, HIDDEN, HIDDEN),))
    assert refused(Ask(IDLE), hidden, protect_rules=rules) is not None


def test_a_process_that_nobody_knows_is_protected_where_anyone_is() -> None:
    hidden = Affected(processes=(AffectedProcess(12, 500, HIDDEN, HIDDEN),))
    for protect_rules in (ProtectRules(users=frozenset({"bob"})), ProtectRules(commands=("jupyter*",))):
        assert refused(Ask(IDLE), hidden, protect_rules=protect_rules) is not None
    assert refused(Ask(IDLE), hidden, protect_rules=ProtectRules()) is None


def test_no_more_are_ended_in_a_while_than_the_limit_allows() -> None:
    limit = RateLimit(2, 60.0)
    assert refused(Ask(IDLE), JOB, recent=[Taken(39.0), Taken(41.0)], limit=limit) is None
    assert refused(Ask(IDLE), JOB, recent=[Taken(42.0), Taken(41.0)], limit=limit) is not None


def test_the_limit_never_keeps_a_warning_or_an_insisting() -> None:
    for action in (Warn(IDLE, 1.0), Kill(IDLE)):
        assert refused(action, JOB, recent=[Taken(99.0)], limit=RateLimit(1, 60.0)) is None
