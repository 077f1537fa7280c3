"""`gpu_idle_timeout`: run a command, and end it when every GPU of the machine idles for a window of samples.

The supervisor of `fallow run` does it; here are the old tool's options and the lines that it logs.
"""

import argparse
import logging
import shlex
from collections.abc import Callable, Sequence
from typing import assert_never

from fallow.actuators.process import spawn
from fallow.actuators.process.foreground_job import Supervision, end_as
from fallow.core.actions import (
    Ask,
    CancelWarning,
    Kill,
    Warn,
    signal_name,
)
from fallow.core.arguments import ArgumentParser
from fallow.core.job import stretch_load
from fallow.core.ports import Depth
from fallow.core.units import duration_for_people, printable
from fallow.core.unknown import Unknown
from fallow.engine.history.journal import open_journal
from fallow.engine.jobs.perform import host_actuators
from fallow.engine.jobs.stop import SystemJobActions
from fallow.engine.jobs.supervisor import (
    Result,
    Rules,
    Supervisor,
    Tick,
)
from fallow.engine.machine.world import World
from fallow.policies.idle import IdleRules

_STOPPED = 124
_MISSED_LOOKS = 3
_LINE = "%(asctime)s: %(levelname)s: %(name)s: %(message)s"


def main(words: Sequence[str], world: World, tell: Callable[[str], None]) -> int:  # noqa: ARG001  it has a log of its own
    """Run the command under the eyes of the supervisor; its exit code, or 124 if it was ended."""
    args = _options(words)
    rules = _rules(args)
    log = _log(debug=args.debug)
    command: list[str] = args.exec_command_and_args
    path = spawn.find(command, world.environ)
    gpus = world.gpu_reader.look(Depth.GLANCE).gpus
    journal = open_journal(world, log.warning)
    helpers = host_actuators(world, dry_run=False).helpers
    job = Supervision(
        path, command, world.environ, table=world.proc, helpers=helpers, monotonic_s=world.clock.monotonic_s
    )
    log.info(
        f"Starting GPU idle watcher: threshhold_percentage={args.threshhold_percentage:g}%, "
        f"sample_freq={args.sample_freq:g}, num_samples={args.num_samples}, delay_samples={args.delay_samples}, "
        f"window_size={args.sample_freq * args.num_samples:g}"
    )
    own = SystemJobActions((job.tree,), helpers, world, log.warning)
    line = printable(shlex.join(command))
    diary = _Diary(log, args)
    try:
        supervisor = Supervisor(world, job, own, gpus, line, rules, journal, diary.ignore, each_tick=diary)
        result = supervisor.run()
    finally:
        job.close()
        journal.close()
    return _end(result, log)


class _Diary:
    """What the old tool logs of each sample."""

    def __init__(self, log: logging.Logger, args: argparse.Namespace) -> None:
        self._log = log
        self._delay = args.delay_samples
        self._every_s = args.sample_freq
        self._below = f"threshhold {args.threshhold_percentage:g}%"
        self._window = f"{args.sample_freq * args.num_samples:g} seconds"

    def ignore(self, sentence: str) -> None:
        """What the supervisor would say of its actions is logged from the ticks, in the old words."""

    def __call__(self, tick: Tick) -> None:
        """One sample: the delay that is left, or the usage of each GPU and what follows from it."""
        if self._delay > 1:
            self._delay -= 1
            self._log.info(f"waiting for delay samples. {self._delay * self._every_s:g} seconds left")
            return
        for gpu in tick.snapshot.gpus:
            load = stretch_load(gpu)
            self._log.debug(f"{gpu.uuid} usage {load if isinstance(load, Unknown) else f'{100 * load:.0f}%'}")
        for action in tick.actions:
            match action:
                case Warn(because=because, ask_in_s=left_s):
                    self._log.warning(f"{because}; ends in {duration_for_people(left_s)} unless it works")
                case CancelWarning(because=because):
                    self._log.warning(f"the process goes on: {because}")
                case Ask():
                    for gpu in tick.snapshot.gpus:
                        below = f"{gpu.uuid} usage below {self._below}"
                        self._log.error(f"{below} for last {self._window}. Killing process.")
                case Kill():
                    self._log.error("process still alive, killing.")
                case _:
                    assert_never(action)


def _rules(args: argparse.Namespace) -> Rules:
    """A sample speaks for the time since the one before it, so the first that counts ends the delay."""
    every_s = args.sample_freq
    idle = IdleRules(
        timeout_s=every_s * args.num_samples,
        warmup_s=every_s * max(0, args.delay_samples - 1),
        longest_gap_s=every_s * _MISSED_LOOKS,
        signal=signal_name(args.signal_name),
    )
    return Rules(idle, idle_below=args.threshhold_percentage / 100, every_s=every_s)


def _end(result: Result, log: logging.Logger) -> int:  # noqa: RET503  end_as() never returns
    for sentence in result.still_held:
        log.warning(sentence)
    if result.going_on:
        log.warning(f"the process has ended; {result.going_on} that it started go on, unwatched")
    if result.stopped_because is not None or result.ended is None:
        return _STOPPED
    end_as(result.ended)


def _log(*, debug: bool) -> logging.Logger:
    log = logging.getLogger("gpu_idle_timeout")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_LINE))
    log.addHandler(handler)
    log.setLevel(logging.DEBUG if debug else logging.INFO)
    return log


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = ArgumentParser(
        "gpu_idle_timeout",
        description="Run a command, and end it when the usage of every GPU stays below a threshold for a window.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("-t", "--threshhold-percentage", type=float, default=1, help="usage in per cent that is not idle")
    add("-s", "--sample-freq", type=float, default=5, help="seconds from one sample to the next")
    add("-n", "--num-samples", type=int, default=60, help="samples in the window, all of which must be below")
    add("-d", "--delay-samples", type=int, default=12, help="samples to wait for before the first that counts")
    add("--signal-name", default="SIGTERM", help="how to ask it to end; 10 s later it is killed")
    add("--signal-children", action="store_true", help="taken and not needed: all of its processes get the signal")
    add("-x", "--debug", action="store_true", help="log the usage of each GPU at each sample")
    add("exec_command_and_args", nargs=argparse.REMAINDER, help="the command to run, with its arguments")
    args = parser.parse_args(words)
    if args.exec_command_and_args[:1] == ["--"]:
        del args.exec_command_and_args[0]
    if not args.exec_command_and_args:
        parser.error("no command to run")
    for name in ("threshhold_percentage", "sample_freq", "num_samples"):
        if not getattr(args, name) > 0:
            parser.error(f"{name.upper()} must be greater than 0")
    return args
