"""`gpu_idle_timeout`: run a command, and end it when every GPU of the machine is idle for a window of samples.

The supervisor of `fallow run` does the work. This file has the old tool's options and log lines.
"""

import argparse
import logging
from collections.abc import Callable, Mapping, Sequence

from fallow.actuators.process import spawn
from fallow.actuators.process.foreground_job import end_as
from fallow.actuators.process.helpers import Helpers
from fallow.core.actions import Ask, CancelWarning, Kill, Warn, signal_name
from fallow.core.arguments import ArgumentParser
from fallow.core.findings import Outcome
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.job import Job, stretch_load
from fallow.core.ports import Depth
from fallow.core.reservations import NOTHING_READ, Reservations
from fallow.core.units import duration_for_people
from fallow.core.unknown import Unknown
from fallow.engine.history.journal import open_journal
from fallow.engine.history.run import Report, Run
from fallow.engine.jobs.compose import Watch, supervise
from fallow.engine.jobs.job_state import JobRule
from fallow.engine.jobs.ports import JobActions, JobSource
from fallow.engine.jobs.supervisor import Result
from fallow.engine.machine.observe import MISSED_LOOKS
from fallow.engine.machine.world import World
from fallow.policies.idle import IdleRules

_STOPPED = 124
_LINE = "%(asctime)s: %(levelname)s: %(name)s: %(message)s"


def main(words: Sequence[str], world: World, tell: Callable[[str], None]) -> int:  # noqa: ARG001  it has a log of its own
    """Run the command and watch it; return its exit code, or 124 if it was ended."""
    args = _options(words)
    watch = _watch(args)
    log = _log(debug=args.debug)
    command: list[str] = args.exec_command_and_args
    path = spawn.find(command, world.environ)
    gpus = world.gpu_reader.look(Depth.HOLDERS).gpus
    journal = open_journal(world, log.warning)
    run = Run(world, journal, Report(lambda _: None))  # the lines are logged by _LoggedJob, in the old words
    helpers = Helpers(world.clock.monotonic_s)

    def logged(source: JobSource, actions: JobActions) -> tuple[JobSource, JobActions]:
        log.info(
            f"Starting GPU idle watcher: threshhold_percentage={args.threshhold_percentage:g}%, "
            f"sample_freq={args.sample_freq:g}, num_samples={args.num_samples}, delay_samples={args.delay_samples}, "
            f"window_size={args.sample_freq * args.num_samples:g}"
        )
        both = _LoggedJob(log, args, source, actions)
        return both, both

    try:
        result = supervise(run, (path, command, world.environ), gpus, watch, helpers, logged)
    finally:
        journal.close()
    return _end(result, log)


class _LoggedJob:
    """The job and what acts on it, with the lines that the old tool logs of each sample and of each action."""

    def __init__(self, log: logging.Logger, args: argparse.Namespace, source: JobSource, actions: JobActions) -> None:
        self._log = log
        self._source = source
        self._actions = actions
        self.describe, self.find = actions.describe, actions.find
        self.forbidden, self.is_gone, self.way = actions.forbidden, actions.is_gone, actions.way
        self.before_ask, self.survivors = actions.before_ask, actions.survivors
        self.warn_by_signal = actions.warn_by_signal
        self._gpus: tuple[Gpu, ...] = ()
        self._delay = args.delay_samples
        self._every_s = args.sample_freq
        self._below = f"threshhold {args.threshhold_percentage:g}%"
        self._window = f"{args.sample_freq * args.num_samples:g} seconds"

    def jobs(self, snapshot: Snapshot, reservations: Mapping[str, Reservations] = NOTHING_READ) -> Sequence[Job]:
        """Log one sample: the delay that is left, or the usage of each GPU."""
        self._gpus = snapshot.gpus
        if self._delay > 1:
            self._delay -= 1
            self._log.info(f"waiting for delay samples. {self._delay * self._every_s:g} seconds left")
        else:
            for gpu in snapshot.gpus:
                load = stretch_load(gpu)
                self._log.debug(f"{gpu.uuid} usage {load if isinstance(load, Unknown) else f'{100 * load:.0f}%'}")
        return self._source.jobs(snapshot, reservations)

    def warn(self, action: Warn) -> Outcome | None:
        """Log the warning."""
        left = duration_for_people(action.ask_in_s)
        self._log.warning(f"{action.because}; ends in {left} unless it works")
        return self._actions.warn(action)

    def cancel(self, action: CancelWarning) -> None:
        """Log that the process continues."""
        self._log.warning(f"the process goes on: {action.because}")
        self._actions.cancel(action)

    def ask(self, action: Ask) -> Outcome:
        """Log the kill for each GPU, and send the signal."""
        for gpu in self._gpus:
            self._log.error(f"{gpu.uuid} usage below {self._below} for last {self._window}. Killing process.")
        return self._actions.ask(action)

    def kill(self, action: Kill) -> Outcome:
        """Log that the process still lives, and kill it."""
        self._log.error("process still alive, killing.")
        return self._actions.kill(action)


def _watch(args: argparse.Namespace) -> Watch:
    """Return the rules. A sample covers the time since the one before it, so the first that counts ends the delay."""
    every_s = args.sample_freq
    idle = IdleRules(
        timeout_s=every_s * args.num_samples,
        warmup_s=every_s * max(0, args.delay_samples - 1),
        longest_gap_s=every_s * MISSED_LOOKS,
        signal=signal_name(args.signal_name),
    )
    return Watch(JobRule(idle, idle_below=args.threshhold_percentage / 100), every_s)


def _end(result: Result, log: logging.Logger) -> int:  # noqa: RET503  end_as() never returns
    for sentence in result.still_held:
        log.warning(sentence)
    if result.going_on:
        log.warning(f"the process has ended; {result.going_on} that it started go on, unwatched")
    if result.stopped is not None or result.ended is None:
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
    what = "Run a command, and end it when the usage of every GPU stays below a threshold for a window."
    parser = ArgumentParser.of_older_tool("gpu_idle_timeout", what)
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
