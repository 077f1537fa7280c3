"""`fallow run`: claim GPUs and exec the command, or stay its parent to stop it if it idles or hangs."""

import argparse
import shlex
import sys
from collections.abc import Mapping
from functools import partial

from fallow.actuators.process import spawn
from fallow.core.actions import signal_name, warning_signal_name
from fallow.core.errors import NotEnoughGpus, WrongUsage
from fallow.core.gpu import Gpu
from fallow.core.units import duration_s, printable, program_name, some_ratio, span_s
from fallow.engine.allocate.claim import Claimed, claim
from fallow.engine.allocate.pick import pick
from fallow.engine.machine.world import World
from fallow.interfaces.cli.on_options import add_on
from fallow.interfaces.cli.options import (
    Parser,
    add_choice,
    chooses,
    every_s,
    interruptible_while_waiting,
    request,
    several,
    takes,
)
from fallow.interfaces.render import gpu_names
from fallow.interfaces.stderr import Stderr

_IDLE, _TIMEOUT = "--idle-timeout", "--idle-timeout or --stuck-timeout"
_DEFAULTS = {
    "warmup": (60.0, _IDLE),
    "idle_below": (0.01, _IDLE),
    "every": (1.0, _TIMEOUT),
    "signal": ("TERM", _TIMEOUT),
    "warn_signal": (None, _TIMEOUT),
    "grace": (10.0, _TIMEOUT),
    "dump_stacks": (False, _TIMEOUT),
}
"""The options that do nothing without another one: the value where none is given, and the other one."""
ABOUT = """\
Claim free GPUs and run CMD on them. The claim ends with the last process of the
job, however it dies. CMD keeps this terminal, environment and exit code.
With a timeout, fallow stays the parent of CMD and forwards signals; without, it
exec()s CMD."""
EXAMPLES = """\
  fallow run -- python train.py
  fallow run -n 4 --name H100 --wait -- torchrun --nproc-per-node 4 train.py
  fallow run --idle-timeout 30m --dump-stacks -- python train.py
  fallow run --idle-timeout 1h --unless cpu:50 -- python serve.py
  fallow run --stuck-timeout 1h -- ./job.sh
  fallow run --dry-run -n 2 -- python train.py
  fallow run --on 'gpu*' --wait -- python train.py"""


def add_options(made: Parser) -> None:
    """Add the options of `fallow run`."""
    made.usage = "fallow run [OPTIONS] -- CMD ..."
    add_choice(made)
    made.add_argument("--shared", action="store_true", help="share the GPUs with other jobs that say --shared too")
    chooses(
        made,
        "--format",
        ("uuid", "index"),
        "name GPUs in CUDA_VISIBLE_DEVICES by UUID or by index (default: uuid)",
        "uuid",
    )
    made.add_argument(
        "--dry-run",
        action="store_true",
        help="run nothing, and print what would be run, and where",
    )
    takes(
        made,
        "--over-ssh WORD",
        str,
        argparse.SUPPRESS,  # for --on, which starts fallow so on the other host; docs/reference/cli.md has it
    )
    add_on(made, "run CMD on one of these hosts, the most suitable")
    _add_stopping(made)


def _add_stopping(made: Parser) -> None:
    group = made.add_argument_group("stopping a job that does not use its GPUs, with a timeout")
    add = partial(takes, group)
    add("--idle-timeout D", span_s, "stop the job when it has been idle for so long")
    add("--warmup D", span_s, "how long after its start a job is never called idle (default: 60s)")
    add("--idle-below P", some_ratio, "utilization in per cent below which the job is idle (default: 1)")
    several(
        group,
        "--unless COND",
        "the job is in use while this is so: cpu:P (its processes use more of a core, in per cent), jupyter (its "
        "kernel runs a cell or was active in the last 5m), http:URL (it answers 200) or file:PATH (it was "
        "written); what cannot be told stops nothing",
    )
    add("--every D", every_s, "how often to read the GPUs (default: 1s)")
    add("--stuck-timeout D", span_s, "stop the job when it has hung for so long: 100 %% utilization and no work")
    add("--signal NAME", signal_name, "the signal that asks the job to end (default: TERM)")
    add(
        "--warn-signal NAME",
        warning_signal_name,
        "the signal that goes with the warning to CMD and its "
        "processes on GPUs, to those that catch it, so that they can save their work",
    )
    add("--grace D", duration_s, "how long after the signal the job gets SIGKILL (default: 10s)")
    group.add_argument(
        "--dump-stacks",
        action="store_true",
        default=None,
        help="before the signal, write the job's Python stacks to a file (needs py-spy)",
    )


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:  # noqa: RET503  become() never returns
    """Claim GPUs, then exec the command, or supervise it; with --on, let another host do that."""
    if args.on is not None:
        from fallow.interfaces.cli.run_on import run_on

        return run_on(args, world, voice)
    command: list[str] = args.command
    if not command:
        raise WrongUsage("no command given; write: fallow run [OPTIONS] -- CMD ...")
    watched = args.idle_timeout is not None or args.stuck_timeout is not None
    _complete(args, {_IDLE: args.idle_timeout is not None, _TIMEOUT: watched})
    path = spawn.find(command, world.environ)
    line = printable(shlex.join(command))
    if watched:
        from fallow.interfaces.cli.supervised import prepare, run_watched

        prepared = prepare(args, world, voice)
    wanted = request(args, shared=args.shared)
    if args.dry_run:
        with interruptible_while_waiting(wanted):
            gpus = pick(world, wanted, voice.note, reserve=False)
        return _dry_run(args, gpus, line, voice)
    try:
        with interruptible_while_waiting(wanted):
            claimed = claim(world, wanted, program=program_name(command[0]), say=voice.note)
    except NotEnoughGpus as error:
        if args.over_ssh is None:
            raise
        print(args.over_ssh, file=sys.stderr, flush=True)  # by this word the other end knows that nothing was run
        return error.exit_code
    variables = gpu_names.environment(claimed.gpus, indices=args.format == "index")
    if voice.on_a_terminal:
        voice.note(f"on {gpu_names.for_people(claimed.gpus)}")
    voice.detail(f"running on GPU {', '.join(gpu.label for gpu in claimed.gpus)}: {line}")
    _hand_over(claimed)
    environ = {**world.environ, **variables, "FALLOW_CLAIM": gpu_names.by_uuid(claimed.gpus)}
    if watched:
        return run_watched(prepared, (path, command, environ), claimed.gpus, args, world, voice)
    if args.over_ssh is not None:
        from fallow.engine.remote.far_end import run_while_connected

        return run_while_connected(world, (path, command, environ)).exit_code
    spawn.become(path, command, environ)


def _complete(args: argparse.Namespace, given: Mapping[str, bool]) -> None:
    """Fill in the defaults of options that need another one; refuse those that do nothing, or leave no time."""
    for option, given_s in (("--idle-timeout", args.idle_timeout), ("--stuck-timeout", args.stuck_timeout)):
        if given_s == 0:
            raise WrongUsage(f"{option} 0 leaves no time for a warning", "leave it out to stop nothing")
    for name, (default, needs) in _DEFAULTS.items():
        if getattr(args, name) is None:
            setattr(args, name, default)
        elif not given[needs]:
            raise WrongUsage(f"--{name.replace('_', '-')} does nothing without {needs}; add that, or leave it out")
    if args.warn_signal == args.signal:
        raise WrongUsage(f"--warn-signal {args.signal} already asks the job to end", "name another, as USR1")
    if args.unless and args.idle_timeout is None:
        raise WrongUsage(f"--unless does nothing without {_IDLE}; add that, or leave it out")


def _dry_run(args: argparse.Namespace, gpus: tuple[Gpu, ...], line: str, voice: Stderr) -> int:
    """Print what would be done, and change nothing: a filler on the GPU stays."""
    variables = gpu_names.environment(gpus, indices=args.format == "index")
    assignments = " ".join(f"{name}={value}" for name, value in variables.items())
    voice.note(f"would run on GPU {', '.join(gpu.label for gpu in gpus)}: {assignments} {line}")
    return 0


def _hand_over(claimed: Claimed) -> None:
    for held in claimed.claims:
        held.hand_to_job()
