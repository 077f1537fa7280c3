"""The part of `fallow run` that stays beside the job."""

import argparse
import shlex
from collections.abc import Mapping, Sequence

from fallow.actuators.process import py_spy
from fallow.actuators.process.foreground_job import Supervision, end_as
from fallow.actuators.process.signals import demand_own_pids
from fallow.core.gpu import Gpu
from fallow.core.units import printable
from fallow.engine.history.journal import open_journal
from fallow.engine.jobs.after_exit import AfterExit, Then, parse_then
from fallow.engine.jobs.perform import (
    host_actuators,
    nobody_to_signal,
    refuse,
    shortcomings,
)
from fallow.engine.jobs.stop import DryRunJobActions, JobActions, SystemJobActions
from fallow.engine.jobs.supervisor import Result, Rules, Supervisor
from fallow.engine.machine.world import World
from fallow.interfaces.signals import interruptible
from fallow.interfaces.stderr import Stderr
from fallow.policies.idle import IdleRules
from fallow.policies.stuck import StuckRules

STOPPED = 124
_MISSED_LOOKS = 3
_WORTH_A_WORD_S = 600.0


class Supervised:
    """Everything that must be known, and permitted, before anybody waits in line."""

    def __init__(self, args: argparse.Namespace, world: World, voice: Stderr, thens: tuple[Then, ...]) -> None:
        demand_own_pids(world.proc)
        self._args = args
        self._world = world
        self._voice = voice
        self._thens = thens
        self._hands = host_actuators(world, dry_run=args.dry_run)
        actions = tuple(then.action for then in thens)
        found = shortcomings(actions, self._hands, world.environ, nobody_to_signal)
        if args.dump_stacks and (missing := py_spy.shortcoming(world.environ)) is not None:
            found.append(missing)
        refuse(found, dry_run=args.dry_run, tell=voice.note)

    def run(self, path: str, command: Sequence[str], environ: Mapping[str, str], gpus: tuple[Gpu, ...]) -> int:  # noqa: RET503  end_as() never returns
        """Start it, watch it, end as it ended, or with 124 if it was stopped."""
        world, voice = self._world, self._voice
        journal = open_journal(world, voice.note)
        clock_s = world.clock.monotonic_s
        job = Supervision(path, command, environ, table=world.proc, helpers=self._hands.helpers, monotonic_s=clock_s)
        line = printable(shlex.join(command))
        supervisor = Supervisor(
            world,
            job,
            self._job_hands(job),
            gpus,
            line,
            self._rules(),
            journal,
            voice.note,
            is_dry_run=self._args.dry_run,
        )
        try:
            result = supervisor.run()
        finally:
            job.close()
        stopped = result.stopped_because
        self._tell_end(result)
        keys = [f"gpu:{gpu.uuid}" for gpu in gpus]
        follower = AfterExit(world, self._hands, journal, voice.note, is_dry_run=self._args.dry_run)
        over = stopped is not None or result.would_be_stopped_because is not None
        with interruptible():
            follower.follow(self._thens, _why(line, result), stopped=over, keys=keys)
        journal.close()
        if stopped is not None or result.ended is None:
            return STOPPED
        end_as(result.ended)

    def _tell_end(self, result: Result) -> None:
        if result.stopped_because is not None:
            self._voice.note(f"stopped: {result.stopped_because} (exit code {STOPPED})")
        for sentence in result.still_held:
            self._voice.note(sentence)
        if result.going_on:
            self._voice.note(f"its first process has ended; {result.going_on} more of the job go on, unwatched")

    def _job_hands(self, job: Supervision) -> JobActions:
        if self._args.dry_run:
            return DryRunJobActions()
        root = job.tree.root
        named = f"{root.pid}-{root.birth}" if self._args.dump_stacks else None
        return SystemJobActions((job.tree,), self._hands.helpers, self._world, self._voice.note, stacks_named=named)

    def _rules(self) -> Rules:
        args = self._args
        gap_s = args.every * _MISSED_LOOKS
        idle = None
        if args.idle_timeout is not None:
            idle = IdleRules(args.idle_timeout, args.warmup, args.grace, gap_s, signal=args.signal)
        # A hang is always worth a word; only who asked for it gets more than that.
        stuck = StuckRules(
            _WORTH_A_WORD_S if args.stuck_timeout is None else args.stuck_timeout,
            acts=args.stuck_timeout is not None,
            grace_s=args.grace,
            longest_gap_s=gap_s,
            signal=args.signal,
        )
        to_the_end = any(then.always for then in self._thens)
        return Rules(idle, stuck, args.idle_below, args.every, until_nobody_is_left=to_the_end)


def prepare(args: argparse.Namespace, world: World, voice: Stderr) -> Supervised:
    """Check what was asked for before anything is claimed."""
    return Supervised(args, world, voice, tuple(parse_then(text) for text in args.then))


def _why(line: str, result: Result) -> str:
    if result.stopped_because is not None:
        return f"{line} was stopped: {result.stopped_because}"
    if result.would_be_stopped_because is not None:
        return f"{line} would have been stopped: {result.would_be_stopped_because}"
    code = "unknown" if result.ended is None else result.ended.exit_code
    return f"{line} ended with exit code {code}"
