"""Answer whether GPUs, or those of somebody, have been idle for so long. What cannot be told is never a yes."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fallow.core.activity import Activity
from fallow.core.gpu_status import Status
from fallow.core.idle_answer import OLDEST_LOOK_S, IdleAnswer, all_idle, idle_answers
from fallow.core.protections import Everything, OneProcess, OneUser
from fallow.core.value import replace, value
from fallow.engine.allocate.subjects import TO_ASK_IDLE, JobSubject, job_subject
from fallow.engine.answers.asker import Asker
from fallow.engine.answers.holding import held_by, is_doubtful, presences
from fallow.engine.conditions.parse import parse_job_condition
from fallow.engine.machine.observe import look_once
from fallow.engine.machine.world import World

if TYPE_CHECKING:
    from fallow.engine.conditions.gpus import GpuConditions, IdleQuestion

_ASK_EVERY_S = 0.1


@value
class IdleFound:
    """The answer for each GPU, and for all of them together."""

    asked_for_s: float
    answers: tuple[IdleAnswer, ...]
    together: bool | None
    """None if it cannot be told."""
    because: str
    """Why, where there is no GPU that would say it."""


def ask_idle(asker: Asker, text: str | None, for_s: float, unless: Sequence[str]) -> IdleFound:
    """Ask the daemon or look once, about a subject as a person writes it; None means all GPUs."""
    world = asker.world
    for condition in unless:
        parse_job_condition(condition)
    asked_wall_s = world.clock.wall_s()
    status = asker.daemon.status() or look_once(world)
    subject = _subject(text, status, world)
    held, answers = _answers(subject, status, for_s, world)
    if status.wall_s < asked_wall_s and (not answers or any(each.idle for each in answers)):
        status = _seen_since(asked_wall_s, asker)  # a job may have begun since the daemon looked
        held, answers = _answers(subject, status, for_s, world)
    if unless and answers:
        answers = _by_conditions(asker, lambda conditions: conditions.ask(unless, held, answers))
    together, because = all_idle(answers), "holds no GPU"
    if not answers and status.gpus and isinstance(subject, OneProcess | OneUser):
        together = True  # it exists, and is on none of the GPUs
        if unless:
            together, because = _without_gpu(asker, subject, unless)
    return IdleFound(for_s, answers, together, because)


def _answers(
    subject: JobSubject, status: Status, for_s: float, world: World
) -> tuple[Status, tuple[IdleAnswer, ...]]:
    """Return the GPUs that the subject holds in a status, and the answer for each."""
    held = held_by(subject, status, world.proc)
    doubtful = {gpu.label for gpu in held.gpus if is_doubtful(subject, gpu, world.proc)}
    return held, tuple(
        replace(each, idle=None, because=f"who holds it is not known; {each.because}")
        if each.gpu in doubtful and each.idle
        else each
        for each in idle_answers(held, for_s, world.clock.wall_s(), presences(subject, held, world.proc))
    )


def _seen_since(wall_s: float, asker: Asker) -> Status:
    """Return the first look of the daemon that began after that time; look once if it does not come."""
    clock, daemon = asker.world.clock, asker.daemon
    until_s = clock.monotonic_s() + OLDEST_LOOK_S
    while clock.monotonic_s() < until_s and (status := daemon.status()) is not None:
        if status.wall_s >= wall_s:
            return status
        clock.sleep(_ASK_EVERY_S)
    return look_once(asker.world)


def _by_conditions(asker: Asker, ask: "Callable[[GpuConditions], IdleQuestion]") -> tuple[IdleAnswer, ...]:
    """Return the answers by conditions too. They are read with the rights of who asks, not by the daemon."""
    from fallow.engine.conditions.gpus import LOOK_EVERY_S, GpuConditions

    question = ask(GpuConditions(asker.world, asker.detail))
    while (found := question.look()) is None:
        asker.world.clock.sleep(LOOK_EVERY_S)
    return found


def _without_gpu(asker: Asker, subject: OneProcess | OneUser, texts: Sequence[str]) -> tuple[bool | None, str]:
    """Return whether somebody who holds no GPU is idle by conditions, and why."""
    answer = IdleAnswer("", None, True, Activity.FREE, None, "holds no GPU")
    if isinstance(subject, OneUser):
        return None, "holds no GPU, and conditions are about jobs: name a process, as pid:PID"
    pid = subject.pid
    (found,) = _by_conditions(asker, lambda conditions: conditions.ask_process(texts, pid, answer))
    return found.idle, found.because


def _subject(text: str | None, status: Status, world: World) -> JobSubject:
    """Return whom a person means. A process or a user must be there: one who was mistyped is not idle."""
    if text is None:
        return Everything()
    return job_subject(text, TO_ASK_IDLE, lambda: status.gpus, world.proc, world.user)
