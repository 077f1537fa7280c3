"""Read the arrows at the head of each policy, and find those that its code takes.

A line at the head of a policy says `FROM  when -> TO  Action`. The code's arrows are found by walking through every
state that some input leads to, with ticks of a second and limits of a few.
"""

import ast
import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import product
from typing import Any, NamedTuple

from fallow.core.actions import HostAction, Notify, RunCommand
from fallow.core.fillers import FillAction, Presence, Yield
from fallow.core.findings import Outcome
from fallow.core.job import JobActivity, JobFinding
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.policies import fill, guard, idle, ladder, stuck
from tests.places import REPOSITORY
from tests.policies.histories import PROTECTED, key, snapshot
from tests.policies.loads import FLAT_OUT, HOLDS, SPINS, card
from tests.reasons import said

POLICIES = ("fill", "guard", "ladder", "idle", "stuck")
UNKNOWN = Unknown("it cannot be read")
_ROW = re.compile(r"^    ([A-Z]+)  +(.+?) +-> ([A-Z]+)(?:  +(\S.*?))?$", re.MULTILINE)


class Arrow(NamedTuple):
    """From one state to another, with the kinds of actions that are taken at once."""

    source: str
    target: str
    actions: frozenset[str]


class Row(NamedTuple):
    """One line at the head of a policy."""

    source: str
    when: str
    target: str
    actions: str

    def arrows(self) -> set[Arrow]:
        """The arrows that the line stands for: one for each `or`."""
        kinds = self.actions.split(" or ") if self.actions else [""]
        return {Arrow(self.source, self.target, frozenset(kind.split(" and ")) - {""}) for kind in kinds}


def head(policy: str) -> str:
    """Return the docstring of a policy's file."""
    source = (REPOSITORY / "src" / "fallow" / "policies" / f"{policy}.py").read_text()
    return ast.get_docstring(ast.parse(source), clean=False) or ""


def rows(policy: str) -> list[Row]:
    """Return the lines with arrows at the head of a policy's file."""
    return [Row(*(part or "" for part in found)) for found in _ROW.findall(head(policy))]


def drawn(policy: str) -> set[Arrow]:
    """Return all arrows at the head of a policy's file."""
    return {arrow for row in rows(policy) for arrow in row.arrows()}


def taken(policy: str) -> set[Arrow]:
    """Return all arrows that the code of a policy takes."""
    walks = {"fill": _fill, "guard": _guard, "ladder": _ladder, "idle": _idle, "stuck": _stuck}
    return set(walks[policy]())


State = Any
Step = tuple[State, Iterable[object]]


def _walk(
    start: State,
    phase: Callable[[State], str],
    steps: Callable[[State], Iterable[Step]],
    same: Callable[[State], Hashable] = lambda state: state,
) -> Iterator[Arrow]:
    """Yield the arrow of every step from every state that can be reached."""
    known, waiting = {same(start)}, [start]
    while waiting:
        state = waiting.pop()
        for following, actions in steps(state):
            kinds = frozenset(_name(each) for each in actions)
            if phase(state) != phase(following) or kinds:
                yield Arrow(phase(state), phase(following), kinds)
            if same(following) not in known:
                known.add(same(following))
                waiting.append(following)


def _name(action: object) -> str:
    if isinstance(action, FillAction):
        return action.verb.name.capitalize()
    return "HostAction" if isinstance(action, HostAction) else type(action).__name__


def _fill() -> Iterator[Arrow]:
    looks = list(product((None, said("somebody"), UNKNOWN), Presence, (None, "ended"), (True, False)))
    for manner in Yield:
        rules = fill.FillRules(2.0, manner, 2.0, 1.0, 3.0, 2.0, 3.0, 1.0, 2.0)

        def steps(state: fill.FillState, rules: fill.FillRules = rules) -> Iterator[Step]:
            for against, presence, ended, room in looks:
                look = fill.FillLook((state.at_s or 0.0) + 1.0, against, presence, ended, room)
                decision = fill.step(state, look, rules)
                yield decision.state, decision.actions

        def same(state: fill.FillState) -> Hashable:
            at_s = state.at_s or 0.0
            blind_s = None if state.blind_since_s is None else min(2.0, at_s - state.blind_since_s)
            since_s, quiet_s = min(4.0, at_s - state.since_s), min(2.0, state.quiet_s)
            failures = min(2, state.failures)
            return state.phase, state.clear, state.killed, failures, blind_s, since_s, quiet_s

        yield from _walk(fill.FillState(), lambda state: state.phase.name, steps, same)


def _ladder() -> Iterator[Arrow]:
    rules = idle.IdleRules(timeout_s=4.0, grace_s=2.0)

    def steps(state: ladder.Ladder) -> Iterator[Step]:
        held_back = (None, said("nobody waits"), UNKNOWN)
        for passed_s, sign, alone, held in product((0.0, 1.0), ladder.Sign, (None, PROTECTED), held_back):
            yield ladder.climb(state, passed_s, sign, said("as drawn"), rules, alone, held)

    return _walk(ladder.Ladder(), lambda state: state.rung.name, steps, _on_the_ladder)


def _on_the_ladder(state: ladder.Ladder) -> Hashable:
    """Return what decides: of a job that is held back the time goes on without end."""
    return state.rung, min(4.0, state.fault_s), state.asked_s, max(0.0, state.ask_at_s - state.fault_s)


def _idle() -> Iterator[Arrow]:
    waits = (None, said("somebody waits"), UNKNOWN)
    for when in idle.When:
        rules = idle.IdleRules(timeout_s=4.0, warmup_s=2.0, grace_s=2.0, when=when)

        def phase(state: idle.State, rules: idle.IdleRules = rules) -> str:
            return "WARMING" if state.warmed_s < rules.warmup_s else state.ladder.rung.name

        def steps(state: idle.State, rules: idle.IdleRules = rules) -> Iterator[Step]:
            for passed_s, activity, alone, who in product((1.0, 9.0), JobActivity, (None, PROTECTED), waits):
                finding = JobFinding(activity, said("as drawn"))
                decision = idle.step(state, (state.at_s or 0.0) + passed_s, finding, rules, alone, who)
                yield decision.state, decision.actions

        def same(state: idle.State) -> Hashable:
            return state.warmed_s, _on_the_ladder(state.ladder)

        yield from _walk(idle.State(at_s=0.0), phase, steps, same)


def _stuck() -> Iterator[Arrow]:
    rules = stuck.StuckRules(timeout_s=2.0)
    uuid = key(card(HOLDS).uuid)

    def phase(state: stuck.State) -> str:
        if state.hung_s == 0:
            return "CLEAR"
        return "SUSPECT" if state.hung_s < rules.timeout_s else "STUCK"

    def steps(state: stuck.State) -> Iterator[Step]:
        for load in (FLAT_OUT, HOLDS, SPINS, None):
            cards = () if load is None else (card(load),)
            decision = stuck.step(state, snapshot((state.at_s or 0.0) + 1.0, *cards), [uuid], rules)
            yield decision.state, decision.actions

    at_rest = stuck.step(stuck.State(), snapshot(0.0, card(HOLDS)), [uuid], rules).state
    return _walk(at_rest, phase, steps, lambda state: min(4.0, state.hung_s))


def _guard() -> Iterator[Arrow]:
    actions: tuple[HostAction, ...] = (Notify("ntfy://quiet"), RunCommand("sync"))
    for countdown_s in (0.0, 2.0):
        rules = guard.GuardRules(actions, arm_for_s=2.0, idle_for_s=2.0, countdown_s=countdown_s, pause_s=1.0)

        def steps(state: guard.State, rules: guard.GuardRules = rules) -> Iterator[Step]:
            if state.phase is guard.Phase.ACTING:
                for ok in (True, False):
                    decision = guard.after_action(state, Outcome(ok=ok, words="as drawn"), rules)
                    yield decision.state, decision.actions
            for load, blockers in product((0.9, 0.0, UNKNOWN), ((), (said("somebody"),), (UNKNOWN,))):
                decision = guard.step(state, (state.at_s or 0.0) + 1.0, {"0": load}, blockers, rules)
                yield decision.state, decision.actions

        def same(state: guard.State) -> Hashable:
            return replace(state, at_s=0.0, seconds=min(4.0, state.seconds), why=said(""))

        yield from _walk(guard.State(at_s=0.0), lambda state: state.phase.name, steps, same)
