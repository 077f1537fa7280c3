"""`gpu_idle_timeout`: run a command, and end it when every GPU of the machine is idle for a window of samples.

The supervisor of `fallow run` does the work. This file has the old tool's options and log lines.
"""

import argparse
import logging
from collections.abc import Callable, Sequence

from fallow.actuators.process import spawn
from fallow.actuators.process.foreground_job import end_as
from fallow.core.actions import signal_name
from fallow.core.arguments import ArgumentParser
from fallow.core.gpu import Snapshot
from fallow.core.job import Job, stretch_load
from fallow.core.ports import Depth
from fallow.core.unknown import Unknown
from fallow.engine.history.run import open_run
from fallow.engine.jobs.compose import Watch, supervise
from fallow.engine.jobs.job_state import JobRule
from fallow.engine.jobs.ports import JobSource
from fallow.engine.machine.observe import MISSED_LOOKS
from fallow.engine.machine.world import World
from fallow.policies.idle import IdleRules

_STOPPED = 124
_LINE = "%(asctime)s: %(levelname)s: %(name)s: %(message)s"


def main(words: Sequence[str], world: World, tell: Callable[[str], None]) -> int:  # noqa: ARG001, RET503  it has a log of its own; end_as() never returns
    """Run the command and watch it; return its exit code, or 124 if it was ended."""
    args = _options(words)
    watch = _watch(args)
    logging.basicConfig(format=_LINE, level=logging.DEBUG if args.debug else logging.INFO)
    log = logging.getLogger("gpu_idle_timeout")
    path = spawn.find(args.exec_command_and_args, world.environ)
    gpus = world.gpu_reader.look(Depth.HOLDERS).gpus
    window_s = args.sample_freq * args.num_samples

    def say(sentence: str) -> None:
        if sentence.startswith("stopping "):
            below = f"usage below threshhold {args.threshhold_percentage:g}% for last {window_s:g} seconds"
            for gpu in gpus:
                log.error(f"{gpu.uuid} {below}. Killing process.")
        elif sentence.startswith("killing "):
            log.error("process still alive, killing.")
        else:
            log.warning(sentence)

    with open_run(world, say) as run:
        log.info(
            f"Starting GPU idle watcher: threshhold_percentage={args.threshhold_percentage:g}%, "
            f"sample_freq={args.sample_freq:g}, num_samples={args.num_samples}, delay_samples={args.delay_samples}, "
            f"window_size={window_s:g}"
        )
        program = (path, args.exec_command_and_args, world.environ)
        result = supervise(run, program, gpus, watch, lambda source: _Samples(source, args, log))
    for sentence in result.still_held:
        log.warning(sentence)
    if result.going_on:
        log.warning(f"the process has ended; {result.going_on} that it started go on, unwatched")
    if result.stopped is not None or result.ended is None:
        return _STOPPED
    end_as(result.ended)


class _Samples:
    """The source of the job; each sample is logged as the old tool does."""

    def __init__(self, source: JobSource, args: argparse.Namespace, log: logging.Logger) -> None:
        self._source = source
        self._delay: int = args.delay_samples
        self._every_s: float = args.sample_freq
        self._log = log

    def jobs(self, snapshot: Snapshot) -> Sequence[Job]:
        """Log one sample: the delay that is left, or the usage of each GPU."""
        if self._delay > 1:
            self._delay -= 1
            self._log.info(f"waiting for delay samples. {self._delay * self._every_s:g} seconds left")
        else:
            for gpu in snapshot.gpus:
                load = stretch_load(gpu)
                self._log.debug(f"{gpu.uuid} usage {load if isinstance(load, Unknown) else f'{100 * load:.0f}%'}")
        return self._source.jobs(snapshot)


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
