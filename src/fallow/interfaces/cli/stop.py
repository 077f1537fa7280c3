"""`fallow stop`: stop jobs by hand, each through what started it, and see that their GPUs are free again."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from fallow.core.errors import NothingFound, WrongUsage
from fallow.core.units import duration_s
from fallow.core.unknown import Unknown
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser, add_json, takes
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
    made.add_argument("-y", "--yes", action="store_true", help="do not ask")
    made.add_argument("--dry-run", action="store_true", help="stop nothing, and print what would be stopped, and how")
    add_json(made)


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Find the jobs, ask, stop them, and print what came of each."""
    from fallow.engine.history.run import open_run
    from fallow.engine.stop.compose import stop_by_hand
    from fallow.interfaces.signals import interruptible

    if any(":" in subject for subject in args.subjects):
        from fallow.core.cluster_names import names_cluster

        if any(map(names_cluster, args.subjects)):
            from fallow.interfaces.cli import cluster_stop

            return cluster_stop.run(args, world, voice)
    asks = not (args.yes or args.dry_run)
    with interruptible(), open_run(world, voice.note, dry_run=args.dry_run) as opened:
        planned: list[Planned] = []
        try:
            jobs, stop = stop_by_hand(opened, args.grace)
            planned += plan(args.subjects, world, jobs, stop, idle_only=args.idle)
            if args.idle and all(map(_is_surely_in_use, planned)):
                voice.note("nothing of that is idle")
            return _stop(args, opened, jobs, stop, planned, voice if asks else None)
        except BaseException as error:
            if not isinstance(error, Exception):
                tell_interrupted(planned, voice)
            raise


def plan(
    subjects: Sequence[str],
    world: World,
    jobs: "JobsByHand",
    stop: "StopByHand",
    *,
    idle_only: bool = False,
) -> "list[Planned]":
    """Return the jobs that a person means, how each would be stopped, and why it is left alone if it is."""
    from fallow.engine.stop.idleness import witness_of
    from fallow.engine.stop.stop import Stage, StoppedJob
    from fallow.interfaces.render.stop_text import Planned

    witness = witness_of(world)
    try:
        meant = jobs.meant(subjects)
    except NothingFound:
        if not (idle_only and _WHOEVER.issuperset(subjects)):
            raise
        meant = []
    planned = [Planned(StoppedJob(found), stop.way(found), witness.idleness(found.whole)) for found in meant]
    for each in planned:
        why = each.idleness.not_idle if idle_only else None
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
    asks_on: Stderr | None,
) -> int:
    ready = untouched(planned)
    if asks_on is not None and ready:
        demand_terminal(asks_on)
    if asks_on is not None and ready and not agreed_to(plan_text(planned), len(ready)):
        opened.say("nothing was stopped")
        return 1
    freed = [] if args.dry_run else stop_now(opened, jobs, stop, planned)
    _print(planned, freed, as_json=args.json, dry_run=args.dry_run)
    wanted = [each for each in planned if not (args.idle and _is_surely_in_use(each))]
    return _exit_code(wanted, freed, dry_run=args.dry_run)


def untouched(planned: "Sequence[Planned]") -> "list[Planned]":
    """Return those that nothing keeps from being stopped, and that have not been touched."""
    from fallow.engine.stop.stop import Stage

    return [each for each in planned if each.stopped.stage is Stage.UNTOUCHED]


def stop_now(opened: "Run", jobs: "JobsByHand", stop: "StopByHand", planned: "Sequence[Planned]") -> "list[FreedGpu]":
    """Stop what is untouched, wait for its end, and return what became of the memory of its GPUs."""
    from fallow.engine.stop.afterwards import look_afterwards

    ready = [each.stopped for each in untouched(planned)]
    if not ready:
        return []
    held_before = stop.stop(ready)
    return look_afterwards(opened.world, jobs, ready, held_before)


def demand_terminal(voice: Stderr) -> None:
    """Raise WrongUsage if there is nobody to ask."""
    if not (voice.on_a_terminal and sys.stdin is not None and sys.stdin.isatty()):
        raise WrongUsage("there is no terminal to ask on", "add --yes to stop without being asked, or --dry-run")


def agreed_to(plan: Sequence[str], count: int) -> bool:
    """Show a person the plan, which stops so many jobs, and return whether they agree."""
    from fallow.interfaces.signals import wait_for_input

    print(*plan, sep="\n", file=sys.stderr)
    answer = ""
    try:
        print(f"Stop {'it' if count == 1 else f'these {count} jobs'}? [y/N] ", end="", file=sys.stderr, flush=True)
        wait_for_input(sys.stdin.fileno())
        answer = sys.stdin.readline()
    finally:
        if not answer.endswith("\n"):  # the end of input, or a signal: what is told next begins a line
            print(file=sys.stderr)
    return answer.strip().lower() in _YES


def plan_text(planned: "Sequence[Planned]") -> list[str]:
    """Return what would be stopped and how, and what would be left alone and why."""
    from fallow.engine.stop.stop import Stage
    from fallow.interfaces.render.stop_text import left_line, plan_lines

    lines: list[str] = []
    for each in planned:
        lines += plan_lines(each) if each.stopped.stage is Stage.UNTOUCHED else [left_line(each)]
    return lines


def result_text(planned: "Sequence[Planned]", freed: "Sequence[FreedGpu]") -> list[str]:
    """Return what came of each job, and of the memory of its GPUs."""
    from fallow.interfaces.render.stop_text import result_line

    taken = {gpu.uuid for each in planned if each.stopped.came_back for gpu in each.stopped.found.gpus}
    told = [gpu.in_words for gpu in freed if gpu.says_something and gpu.gpu.uuid not in taken]
    return [*map(result_line, planned), *told]


def _print(planned: "Sequence[Planned]", freed: "Sequence[FreedGpu]", *, as_json: bool, dry_run: bool) -> None:
    from fallow.interfaces.render import stop_text
    from fallow.interfaces.render.as_json import as_text

    if as_json:
        print(as_text(stop_text.as_json(planned, freed, dry_run=dry_run)))
        return
    for line in plan_text(planned) if dry_run else result_text(planned, freed):
        print(line)


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


def tell_interrupted(planned: "Sequence[Planned]", voice: Stderr) -> None:
    """Say how far the stop of each job has come."""
    from fallow.engine.stop.stop import Stage
    from fallow.interfaces.render.stop_text import progress_word

    touched = [each for each in planned if each.stopped.stage in (Stage.ASKED, Stage.STOPPED)]
    if not touched:
        voice.note("interrupted: nothing was stopped")
    for each in planned if touched else ():
        voice.note(f"interrupted: {progress_word(each)}")
