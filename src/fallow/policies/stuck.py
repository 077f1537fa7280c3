"""Find a job that hangs at 100 %: its GPUs look used, and no work is done on them.

    CLEAR    a tick looks hung                     -> SUSPECT
    SUSPECT  every tick looked hung for timeout_s  -> STUCK
    SUSPECT  a tick shows work, or nothing ran     -> CLEAR
    STUCK    a tick shows work, or nothing ran     -> CLEAR

This only reports, unless the rules say `acts`. Then the job is also on the ladder of `policies/ladder.py`, with the
hang as the fault: it is warned before the window is full, and asked when it is.

A job on several GPUs is hung if one GPU is hung and none works: in a collective that never ends, some ranks spin and
the one that is missing is quiet. An unknown reading counts zero and resets nothing; so does a gap between two looks.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from fallow.core.actions import JobAction
from fallow.core.findings import Verdict
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.job import GpuKey
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.core.witnessed_time import witnessed_s
from fallow.policies.hang import HangFinding, Look, look_for_hang, rest_power_w
from fallow.policies.ladder import Climbed, Ladder, LadderRules, Sign, climb

_NOT_LEARNED: Mapping[str, float] = MappingProxyType({})
_ALL_PROCESSES = Unknown("no processes were named")


@value
class StuckRules(LadderRules):
    """For how long a job must look hung, and whether it is stopped then."""

    fault = "stuck"

    acts: bool = False


@value
class State:
    """The state of one job, and the power that each of its GPUs is known to draw at rest, by UUID."""

    at_s: float | None = None
    rest_w: Mapping[str, float] = _NOT_LEARNED
    hung_s: float = 0.0
    """Witnessed seconds for which it has looked hung: counted under a protection too, which only forbids actions."""
    ladder: Ladder = Ladder()


@value
class Decision:
    """The state after a tick, what was found, and what is to be done."""

    state: State
    verdict: Verdict
    actions: tuple[JobAction, ...] = ()


def step(
    state: State,
    snapshot: Snapshot,
    gpus: Iterable[GpuKey],
    rules: StuckRules,
    pids: frozenset[int] | Unknown = _ALL_PROCESSES,
    leave_alone: Reason | None = None,
) -> Decision:
    """Return the decision of one tick for a job on these GPUs; without its pids, for all processes on them."""
    seen = {gpu.uuid: gpu.find_in(snapshot) for gpu in gpus}
    rest_w = _learn(state.rest_w, seen)
    findings = [_look(gpu, pids, rest_w.get(uuid)) for uuid, gpu in seen.items()]
    sign, reason = _together(findings)
    passed_s = witnessed_s(state.at_s, snapshot.at_s, rules.longest_gap_s)
    hung_s = 0.0 if sign is Sign.FINE else state.hung_s + (passed_s if sign is Sign.FAULT else 0.0)
    climbed: Climbed = (state.ladder, ())
    if rules.acts:
        climbed = climb(state.ladder, passed_s, sign, reason, rules, leave_alone)
    ladder, actions = climbed
    evidence = tuple(pair for finding in findings for pair in finding.evidence)
    names = ", ".join(uuid if isinstance(gpu, Unknown) else gpu.label for uuid, gpu in seen.items())
    verdict = Verdict(f"GPU {names}", *_found(sign, hung_s, reason, rules), evidence)
    return Decision(State(snapshot.at_s, rest_w, hung_s, ladder), verdict, actions)


def glanced(before: State, gpu: Gpu, uuid: str, at_s: float, look: Look) -> State:
    """Return the state that `step` returns for one GPU that works or is unknown, under rules that only report."""
    hung_s = before.hung_s if look is Look.UNKNOWN else 0.0
    return State(at_s, _learn(before.rest_w, {uuid: gpu}), hung_s, before.ladder)


def _learn(before: Mapping[str, float], gpus: Mapping[str, Gpu | Unknown]) -> Mapping[str, float]:
    learned: dict[str, float] = {}
    for uuid, gpu in gpus.items():
        rest_w = None if isinstance(gpu, Unknown) else rest_power_w(gpu, before.get(uuid))
        if rest_w is not None and rest_w != before.get(uuid):
            learned[uuid] = rest_w
    return {**before, **learned} if learned else before


def _look(gpu: Gpu | Unknown, pids: frozenset[int] | Unknown, rest_w: float | None) -> HangFinding:
    if isinstance(gpu, Unknown):
        return HangFinding(Look.UNKNOWN, Reason("gpu_unknown", why=gpu.why))
    if isinstance(pids, Unknown) and pids is not _ALL_PROCESSES and _is_of_several_users(gpu):
        return HangFinding(Look.UNKNOWN, Reason("load_unknown", gpu=gpu.label, why=pids.why))
    return look_for_hang(gpu, pids, rest_w)


def _is_of_several_users(gpu: Gpu) -> bool:
    """Return whether somebody else may hang there: what each process did is not told under MPS."""
    return not isinstance(gpu.holders, Unknown) and len({holder.user for holder in gpu.holders}) > 1


def _together(findings: Iterable[HangFinding]) -> tuple[Sign, Reason]:
    """Return what all GPUs say together: one that works clears the job, then one unknown leaves it open."""
    by_look: dict[Look, Reason] = {}
    for finding in findings:
        by_look.setdefault(finding.look, finding.reason)
    for look, sign in (
        (Look.WORKS, Sign.FINE),
        (Look.UNKNOWN, Sign.UNKNOWN),
        (Look.HUNG, Sign.FAULT),
        (Look.QUIET, Sign.FINE),
    ):
        if look in by_look:
            return sign, by_look[look]
    return Sign.UNKNOWN, Reason("no_gpu")


def _found(sign: Sign, hung_s: float, reason: Reason, rules: StuckRules) -> tuple[str, Reason]:
    if sign is not Sign.FAULT:
        return "clear" if sign is Sign.FINE else "unknown", reason
    if hung_s < rules.timeout_s:
        return "suspect", Reason("hung_so_far", found=reason, for_s=hung_s, after_s=rules.timeout_s)
    return "stuck", Reason("hung", found=reason, for_s=hung_s)
