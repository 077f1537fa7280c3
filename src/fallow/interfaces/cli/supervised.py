"""The part of `fallow run` that stays the parent of the job: its options, and its last message."""

import argparse
from collections.abc import Sequence
from functools import partial

from fallow.actuators.process.foreground_job import end_as
from fallow.core.gpu import Gpu
from fallow.engine.jobs.before_ask import BeforeAsk
from fallow.engine.jobs.compose import Program, Watch, WatchedRun
from fallow.engine.jobs.job_state import JobRule
from fallow.engine.jobs.ports import BeginConditions
from fallow.engine.jobs.supervisor import Result
from fallow.engine.machine.observe import MISSED_LOOKS
from fallow.engine.machine.world import World
from fallow.interfaces.cli.used import say_used
from fallow.interfaces.signals import interruptible
from fallow.interfaces.stderr import Stderr
from fallow.policies.idle import IdleRules
from fallow.policies.stuck import StuckRules

STOPPED = 124
_REPORT_A_HANG_AFTER_S = 600.0


def prepare(args: argparse.Namespace, world: World, voice: Stderr) -> WatchedRun:
    """Check the options before anything is claimed."""
    return WatchedRun(world, voice.note, _watch(args, world, voice))


def run_watched(  # noqa: RET503  end_as() never returns
    watched: WatchedRun, program: Program, gpus: Sequence[Gpu], args: argparse.Namespace, world: World, voice: Stderr
) -> int:
    """Run the job, and end with its exit code or signal, or with 124 if it was stopped."""
    result = watched.run(program, gpus)
    _say_end(result, voice)
    with interruptible():
        say_used(result.used, gpus, world, voice)
    if result.stopped is not None or result.ended is None:
        return STOPPED
    if args.over_ssh is not None:  # there ssh would only report that something failed
        return result.ended.exit_code
    end_as(result.ended)


def _say_end(result: Result, voice: Stderr) -> None:
    if result.stopped is not None:
        voice.note(f"stopped: {result.stopped} (exit code {STOPPED})")
    for sentence in result.still_held:
        voice.note(sentence)
    if result.going_on:
        voice.note(f"its first process has ended; {result.going_on} more of the job go on, unwatched")


def _conditions(args: argparse.Namespace, world: World, voice: Stderr) -> BeginConditions:
    """Return what makes the conditions of the job; a wrong one is refused here."""
    if not args.unless:
        return tuple
    from fallow.engine.conditions.job import JobConditions
    from fallow.engine.owners.known import KnownOwners

    conditions = JobConditions(world, KnownOwners(world, voice.note), voice.note, started_here=True)
    conditions.begin(args.unless)
    return partial(conditions.begin, args.unless)


def _watch(args: argparse.Namespace, world: World, voice: Stderr) -> Watch:
    gap_s = args.every * MISSED_LOOKS
    idle = None
    if args.idle_timeout is not None:
        idle = IdleRules(args.idle_timeout, args.grace, gap_s, signal=args.signal, warmup_s=args.warmup)
    # A hang is always reported; the job is stopped only with --stuck-timeout.
    stuck = StuckRules(
        _REPORT_A_HANG_AFTER_S if args.stuck_timeout is None else args.stuck_timeout,
        acts=args.stuck_timeout is not None,
        grace_s=args.grace,
        longest_gap_s=gap_s,
        signal=args.signal,
    )
    rule = JobRule(
        idle,
        stuck,
        args.idle_below,
        before_ask=BeforeAsk(args.dump_stacks),
        warn_signal=args.warn_signal,
        begin_conditions=_conditions(args, world, voice),
    )
    return Watch(rule, args.every, ends_with_parent=args.over_ssh is not None)
