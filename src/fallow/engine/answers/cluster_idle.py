"""Answer whether jobs of the cluster have been idle for so long. What cannot be told is no yes."""

from fallow.core.cluster_names import cluster_target
from fallow.core.cluster_view import ClusterView, GpuState, JobLine
from fallow.core.protections import ClusterPart, OneClusterJob
from fallow.core.value import value
from fallow.engine.answers.asker import Asker
from fallow.engine.answers.cluster import cluster_of, note_if_old


@value
class JobAnswer:
    """Whether one job is idle, None if that cannot be told, and why."""

    job: str
    idle: bool | None
    activity: str
    idle_s: float
    because: str


@value
class ClusterIdle:
    """The answer for each job, and for all of them together."""

    asked_for_s: float
    answers: tuple[JobAnswer, ...]
    together: bool | None
    """None if it cannot be told."""
    because: str
    """Why there is no job that would say it, or why it cannot be told."""


def ask_cluster_idle(asker: Asker, subject: str, for_s: float) -> ClusterIdle:
    """Ask the daemon about a part of the cluster."""
    target = cluster_target(subject)
    view = cluster_of(asker, subject)
    is_old = note_if_old(asker, view)
    answers = tuple(_answer(job, for_s, view, is_old=is_old) for job in view.jobs)
    if answers:
        return ClusterIdle(for_s, answers, _together(answers), _first_doubt(answers))
    if view.troubles or is_old or not _is_there(target, view):
        # A job that ended and a name that was mistyped look the same, so that is no yes; nor is a blind look.
        return ClusterIdle(for_s, answers, None, _doubt(view, is_old=is_old))
    if for_s:
        return ClusterIdle(for_s, answers, None, "holds no GPU now; since when is not known")
    return ClusterIdle(for_s, answers, True, "holds no GPU")


def _is_there(target: OneClusterJob | ClusterPart, view: ClusterView) -> bool:
    """Return whether something without a job on a GPU is known to exist: the engine lists nodes and partitions."""
    if isinstance(target, ClusterPart) and target.kind == "partition":
        return any(target.name in node.labels.get("partition", "").split(",") for node in view.nodes)
    return isinstance(target, ClusterPart) and target.kind == "node" and bool(view.nodes)


def _doubt(view: ClusterView, *, is_old: bool) -> str:
    """Return why it cannot be told of what no job was found for."""
    if not view.jobs_listed:
        return view.troubles[0] if view.troubles else "its jobs could not be listed"
    return "held no GPU at the last look, which was long ago" if is_old else "holds no GPU now, or does not exist"


def _first_doubt(answers: tuple[JobAnswer, ...]) -> str:
    return next((f"{each.job}: {each.because}" for each in answers if each.idle is None), "")


def _answer(job: JobLine, for_s: float, view: ClusterView, *, is_old: bool) -> JobAnswer:
    idle: bool | None = None
    because = job.because
    if view.troubles:
        because = f"it could not be read: {view.troubles[0]}"
    elif is_old:
        because = f"the last look was long ago; then: {because}"
    elif job.activity is GpuState.FILLED:
        idle = None if for_s else True
        because = f"{because}; since when nobody else used it is not known" if for_s else because
    elif job.activity is GpuState.BUSY:
        idle = False
    elif job.activity is GpuState.IDLE:
        idle = job.idle_s >= for_s
    return JobAnswer(job.subject, idle, job.activity.value, job.idle_s, because)


def _together(answers: tuple[JobAnswer, ...]) -> bool | None:
    found = [each.idle for each in answers]
    if False in found:
        return False
    return None if None in found else True
