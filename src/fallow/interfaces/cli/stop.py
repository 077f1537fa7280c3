"""`fallow stop`: stop jobs by hand, each through what started it, and see that their GPUs are free again."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from fallow.core.actions import signal_name
from fallow.core.errors import NothingFound, WrongUsage
from fallow.core.units import duration_s
from fallow.core.unknown import Unknown
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser, add_alone, add_json, takes
from fallow.interfaces.stderr import Stderr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.engine.history.run import Run
    from fallow.engine.stop.afterwards import FreedGpu
    from fallow.engine.stop.find import JobsByHand
    from fallow.engine.stop.stop import StopByHand
    from fallow.interfaces.render.stop_text import Planned

ABOUT = """\
Stop jobs that hold GPUs, each through what started it, so that nothing starts
it again: a notebook by its Jupyter server, a container by its engine, a service
by systemd, anything else by SIGTERM and, after the grace, SIGKILL. Then wait
until their memory is free. What is protected is left alone. Jobs of others need
root. On a terminal it lists the jobs and asks first.

exit codes: 0 all stopped, or with --idle nothing is idle; 1 nothing of that
name, something is left, or cannot be told to be idle; 77 not yours"""
EXAMPLES = """\
  fallow stop 3                     what is on GPU 3
  fallow stop pid:12345             one process on a GPU, with all below it
  fallow stop mine --idle           your jobs that are idle
  fallow stop container:vllm-prod   or unit:NAME, notebook:NAME, user:NAME
  fallow stop slurm:1234            a job of a cluster, with your rights there
  fallow stop all --dry-run"""
_YES = ("y", "yes")
_WHOEVER = frozenset(("mine", "all"))
"""Subjects that name nobody, so that nobody may be there."""


def add_options(made: Parser) -> None:
    """Add the options of `fallow stop`."""
    made.usage = "fallow stop [OPTIONS] SUBJECT…"
    add = partial(takes, made)
    made.add_argument(
        "subjects",
        nargs="+",
        metavar="SUBJECT",
        help="GPUs, pid:PID, user:NAME, container:NAME, unit:NAME, notebook:NAME, mine or all; or jobs of a "
        "cluster: slurm:ID, deployment:NAMESPACE/NAME, pod:NAMESPACE/NAME",
    )
    made.add_argument("--idle", action="store_true", help="stop only jobs that `fallow up` has seen to be idle")
    add("--grace D", duration_s, "how long a job has to end before it is killed (default: 10s)", 10.0)
    add("--signal NAME", signal_name, "the signal that asks a job without an owner to end (default: TERM)", "TERM")
    made.add_argument("-y", "--yes", action="store_true", help="do not ask")
    made.add_argument("--dry-run", action="store_true", help="stop nothing, and print what would be stopped, and how")
    add_json(made)
    add_alone(made)


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Find the jobs, ask, stop them, and print what came of each."""
    from fallow.engine.allocate.job_subject import subjects_that_exist
    from fallow.engine.history.run import open_run
    from fallow.engine.stop.compose import stop_by_hand
    from fallow.engine.stop.stop import HowToStop
    from fallow.interfaces.signals import interruptible

    if any(":" in subject for subject in args.subjects):
        from fallow.core.cluster_names import names_cluster

        if any(map(names_cluster, args.subjects)):
            from fallow.interfaces.cli import cluster_stop

            return cluster_stop.run(args, world, voice)
    asks = not (args.yes or args.dry_run)
    if asks and not (voice.on_a_terminal and sys.stdin is not None and sys.stdin.isatty()):
        subjects_that_exist(args.subjects, world, process_too=False)  # what is mistyped is told first
        raise WrongUsage("there is no terminal to ask on", "add --yes to stop without being asked, or --dry-run")
    with interruptible(), open_run(world, voice.note, dry_run=args.dry_run) as opened:
        planned: list[Planned] = []
        try:
            jobs, stop = stop_by_hand(opened, HowToStop(args.signal, args.grace), alone=args.alone)
            planned += _plan(args, world, jobs, stop)
            if args.idle and all(map(_is_surely_in_use, planned)):
                voice.note("nothing of that is idle")
            return _stop(args, opened, jobs, stop, planned, asks=asks)
        except BaseException as error:
            if not isinstance(error, Exception):
                _tell_interrupted(planned, voice)
            raise


def _plan(args: argparse.Namespace, world: World, jobs: "JobsByHand", stop: "StopByHand") -> "list[Planned]":
    from fallow.engine.stop.idleness import witness_of
    from fallow.engine.stop.stop import Stage, StoppedJob
    from fallow.interfaces.render.stop_text import Planned

    witness = witness_of(world, alone=args.alone)
    try:
        meant = jobs.meant(args.subjects)
    except NothingFound:
        if not (args.idle and _WHOEVER.issuperset(args.subjects)):
            raise
        meant = []
    planned = [Planned(StoppedJob(found), stop.way(found), witness.idleness(found.whole)) for found in meant]
    for each in planned:
        why = each.idleness.not_idle if args.idle else None
        if why is None or (why.kind == "not_counted" and each.idleness.for_s is not None):
            why = stop.refusal(each.stopped.found) or why  # what protects it is also why a rule does not count it
        if why is not None:
            each.stopped.end(Stage.LEFT, why)
    return planned


def _stop(
    args: argparse.Namespace,
    opened: "Run",
    jobs: "JobsByHand",
    stop: "StopByHand",
    planned: "Sequence[Planned]",
    *,
    asks: bool,
) -> int:
    from fallow.engine.stop.afterwards import look_afterwards
    from fallow.engine.stop.stop import Stage

    ready = [each for each in planned if each.stopped.stage is Stage.UNTOUCHED]
    if asks and ready and not _agreed(planned):
        opened.say("nothing was stopped")
        return 1
    freed: list[FreedGpu] = []
    if ready and not args.dry_run:
        stop.stop([each.stopped for each in ready])
        freed = look_afterwards(opened.world, jobs, [each.stopped for each in ready])
    _print(planned, freed, as_json=args.json, dry_run=args.dry_run)
    wanted = [each for each in planned if not (args.idle and _is_surely_in_use(each))]
    return _exit_code(wanted, freed, dry_run=args.dry_run)


def _agreed(planned: "Sequence[Planned]") -> bool:
    """Show a person what would be stopped, and return whether they agree."""
    from fallow.engine.stop.stop import Stage

    count = sum(each.stopped.stage is Stage.UNTOUCHED for each in planned)
    return agreed_to([line for each in planned for line in _plan_of(each)], count)


def agreed_to(plan: Sequence[str], count: int) -> bool:
    """Show a person the plan, which stops so many jobs, and return whether they agree."""
    print(*plan, sep="\n", file=sys.stderr)
    print(f"Stop {'it' if count == 1 else f'these {count} jobs'}? [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    return answer.strip().lower() in _YES


def _plan_of(planned: "Planned") -> list[str]:
    from fallow.engine.stop.stop import Stage
    from fallow.interfaces.render.stop_text import left_line, plan_lines

    return plan_lines(planned) if planned.stopped.stage is Stage.UNTOUCHED else [left_line(planned)]


def _print(planned: "Sequence[Planned]", freed: "Sequence[FreedGpu]", *, as_json: bool, dry_run: bool) -> None:
    from fallow.interfaces.render import stop_text
    from fallow.interfaces.render.as_json import as_text

    if as_json:
        print(as_text(stop_text.as_json(planned, freed, dry_run=dry_run)))
        return
    for each in planned:
        print(*(_plan_of(each) if dry_run else [stop_text.result_line(each)]), sep="\n")
    taken = {gpu.uuid for each in planned if each.stopped.came_back for gpu in each.stopped.found.gpus}
    for freed_gpu in freed:
        if freed_gpu.says_something and freed_gpu.gpu.uuid not in taken:
            print(freed_gpu.in_words)


def _is_surely_in_use(planned: "Planned") -> bool:
    why = planned.idleness.not_idle
    return why is not None and why.kind == "not_idle"


def _exit_code(wanted: "Sequence[Planned]", freed: "Sequence[FreedGpu]", *, dry_run: bool) -> int:
    """Return 0 if all that was to be stopped is gone, and stays so."""
    from fallow.engine.stop.stop import Stage

    good = Stage.UNTOUCHED if dry_run else Stage.STOPPED
    held = [gpu for gpu in freed if not isinstance(gpu.unseen_bytes, Unknown) and not gpu.is_back]
    done = all(each.stopped.stage is good and not each.stopped.came_back for each in wanted)
    return 0 if done and not held else 1


def _tell_interrupted(planned: "Sequence[Planned]", voice: Stderr) -> None:
    from fallow.engine.stop.stop import Stage
    from fallow.interfaces.render.stop_text import progress_word

    touched = [each for each in planned if each.stopped.stage in (Stage.ASKED, Stage.STOPPED)]
    if not touched:
        voice.note("interrupted: nothing was stopped")
    for each in planned if touched else ():
        voice.note(f"interrupted: {progress_word(each)}")
