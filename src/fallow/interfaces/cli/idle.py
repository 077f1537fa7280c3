"""`fallow idle`: answer other programs whether GPUs have been idle for so long, by the exit code."""

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fallow.core.activity import AVAILABLE, Activity
from fallow.core.gpu_status import Status
from fallow.core.idle_answer import IdleAnswer, all_idle, idle_answers
from fallow.core.protections import Everything, OneProcess, OneUser
from fallow.core.selection import select
from fallow.core.units import duration_for_people, printable, span_s
from fallow.core.value import replace
from fallow.engine.allocate.held_by import held_by, is_doubtful, presences
from fallow.engine.allocate.job_subject import JobSubject, job_subject
from fallow.engine.allocate.protection_target import target_of
from fallow.engine.conditions.parse import parse_job_condition
from fallow.engine.machine.observe import look_once
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser, add_alone, several, takes
from fallow.interfaces.render import as_json
from fallow.interfaces.stderr import Stderr

if TYPE_CHECKING:
    from fallow.engine.conditions.gpus import GpuConditions, IdleQuestion

ABOUT = """\
Answer whether all GPUs are idle: free, filled with work that leaves, or held
while nothing runs. With --for, whether `fallow up` has seen them so for that
long, of somebody's GPUs only since they came. With --unless, whether the jobs
on them are not in use otherwise either.
What cannot be told is never a yes. A subject that holds no GPU is idle.

exit codes: 0 idle, 1 in use or not idle for so long, 75 cannot be told,
69 no driver"""
EXAMPLES = """\
  fallow idle --for 30m && echo "nobody has used a GPU for half an hour"
  fallow idle 0-3 --for 2h --json
  fallow idle user:ada --for 1h
  fallow idle slurm:1234 --for 30m
  fallow idle --for 30m --unless cpu:50 --unless jupyter && ./cull.sh
  fallow idle || echo "in use, or not to be told\""""
_ANSWERS = {True: "idle", False: "in use", None: "cannot be told"}
_EXIT_CODES = {True: 0, False: 1, None: 75}


def add_options(made: Parser) -> None:
    """Add the options of `fallow idle`."""
    made.usage = "fallow idle [OPTIONS] [SUBJECT]"
    made.add_argument(
        "subject",
        nargs="?",
        metavar="SUBJECT",
        help="ask only about these GPUs (0,2 or 0-3, UUIDs), or about those of somebody: pid:PID with all "
        "below it, user:NAME, container:NAME, unit:NAME, notebook:NAME, mine; or about jobs of the cluster: "
        "slurm:ID, deployment:NAMESPACE/NAME, node:NAME, partition:NAME",
    )
    takes(made, "--for D", span_s, "how long they must have been idle, as 30m (default: now)", 0.0, "for_s")
    several(
        made,
        "--unless COND",
        "not idle while this is so of the jobs on them, as in `fallow run`: cpu:P, io:RATE, net:RATE, jupyter, "
        "http:URL, metric:'URL NAME', vllm:URL or file:PATH",
    )
    made.add_argument("--json", action="store_true", help="print the answer for each GPU as JSON")
    add_alone(made)


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Ask the daemon or look once, print the answers, and return the exit code for all of them."""
    if args.subject is not None and ":" in args.subject:
        from fallow.core.cluster_names import names_cluster

        if names_cluster(args.subject):
            from fallow.interfaces.cli import cluster_idle

            return cluster_idle.run(args, world, voice)
    for text in args.unless:
        parse_job_condition(text)
    daemon = None if args.alone else world.daemon(voice.detail)
    status = (None if daemon is None else daemon.status()) or look_once(world)
    subject = _subject(args.subject, status, world)
    held = held_by(subject, status, world.proc)
    doubtful = {gpu.label for gpu in held.gpus if is_doubtful(subject, gpu, world.proc)}
    answers = tuple(
        replace(each, idle=None, because=f"who holds it is not known; {each.because}")
        if each.gpu in doubtful and each.idle
        else each
        for each in idle_answers(held, args.for_s, world.clock.wall_s(), presences(subject, held, world.proc))
    )
    if args.unless and answers:
        answers = _by_conditions(world, voice, lambda conditions: conditions.ask(args.unless, held, answers))
    together, because = all_idle(answers), "holds no GPU"
    if not answers and status.gpus and isinstance(subject, OneProcess | OneUser):
        together = True  # it exists, and is on none of the GPUs
        if args.unless:
            together, because = _without_gpu(subject, args.unless, world, voice)
    if args.json:
        print(as_json.as_text(as_json.idle(answers, args.for_s, together)))
    else:
        if not answers:
            print(printable(f"{args.subject}: {_ANSWERS[together]}: {because}"))
        for each in answers:
            print(printable(f"GPU {each.gpu}: {_in_words(each, args.for_s)}: {each.because}"))
    return _EXIT_CODES[together]


def _in_words(answer: IdleAnswer, for_s: float) -> str:
    """Return the answer. What is idle and was not for long enough is not called in use."""
    quiet = answer.activity in (*AVAILABLE, Activity.IDLE)
    if quiet and answer.idle is False and answer.for_s is not None and answer.for_s < for_s:
        return f"not for {duration_for_people(for_s)} yet"
    return _ANSWERS[answer.idle]


def _by_conditions(
    world: World, voice: Stderr, ask: "Callable[[GpuConditions], IdleQuestion]"
) -> tuple[IdleAnswer, ...]:
    """Return the answers by conditions too. They are read with the rights of who asks, not by the daemon."""
    from fallow.engine.conditions.gpus import LOOK_EVERY_S, GpuConditions

    question = ask(GpuConditions(world, voice.detail))
    while (found := question.look()) is None:
        world.clock.sleep(LOOK_EVERY_S)
    return found


def _without_gpu(
    subject: OneProcess | OneUser, texts: Sequence[str], world: World, voice: Stderr
) -> tuple[bool | None, str]:
    """Return whether somebody who holds no GPU is idle by conditions, and why."""
    answer = IdleAnswer("", None, True, Activity.FREE, None, "holds no GPU")
    if isinstance(subject, OneUser):
        return None, "holds no GPU, and conditions are about jobs: name a process, as pid:PID"
    pid = subject.pid
    (found,) = _by_conditions(world, voice, lambda conditions: conditions.ask_process(texts, pid, answer))
    return found.idle, found.because


def _subject(text: str | None, status: Status, world: World) -> JobSubject:
    """Return whom a person means. A process or a user must be there: one who was mistyped is not idle."""
    if text is None:
        return Everything()
    subject = job_subject(text, lambda: status.gpus, world.proc, world.user)
    if text.startswith(("pid:", "user:")):
        target_of(text, world, among=status.gpus)
    elif isinstance(subject, OneProcess):
        select(text, status.gpus)  # a number is a GPU here, and this one is none
    return subject
