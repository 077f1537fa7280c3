"""Say in words what is so of a cluster: what is available now, what is wasted, and what follows for a job."""

from fallow.core.cluster_view import ClusterView, JobLine, NodeLine
from fallow.core.units import duration_for_people, printable
from fallow.core.unknown import Unknown

_FOLLOWS = {"report": "is reported", "warn": "is warned", "ask": "is asked to end", "kill": "is killed"}


def first_line(view: ClusterView, subject: str | None = None) -> str:
    """Return what is available now and what is wasted, in the whole cluster; `subject`: whose jobs the view has."""
    idle = view.counts["idle"]
    wasteful = [job.idle_gpus for job in view.jobs if job.idle_gpus]
    jobs = "" if view.more_jobs else f" in {len(wasteful):,} job{'' if len(wasteful) == 1 else 's'}"
    if subject is not None:
        jobs = f" ({sum(wasteful):,}{jobs} of {printable(subject)})" if wasteful and jobs else ""
    wasted = "none held and idle"
    if isinstance(idle, Unknown):
        wasted = "what is held and idle is not known"
    elif idle:
        wasted = f"{idle:,} held and idle{jobs}"
    waited = "" if isinstance(view.pending, Unknown) else f", {view.pending:,} waited for"
    return f"{view.engine.proper_name}: {_available(view)}, {wasted}{waited}"


def _available(view: ClusterView) -> str:
    """Return `3 of 8 GPUs available (2 free, 1 filled)`, or where nothing is filled `2 of 8 GPUs free`."""
    free, filled, total = view.counts["free"], view.counts["filled"], view.total
    if isinstance(free, Unknown) or isinstance(filled, Unknown) or isinstance(total, Unknown):
        return "what is available now is not known"
    if not filled:
        return f"{free:,} of {total:,} GPUs free"
    within = f"{free:,} free, {filled:,} filled" if free else f"{filled:,} filled"
    return f"{free + filled:,} of {total:,} GPUs available ({within})"


def nothing_held(view: ClusterView, subject: str | None) -> str:
    """Return that no job of it holds a GPU; where the jobs could not be listed, that this is not known."""
    of_it = f" of {printable(subject)}" if subject else ""
    return f"no job{of_it} holds a GPU" if view.jobs_listed else f"whether a job{of_it} holds a GPU is not known"


def idle_share(job: JobLine) -> str:
    """Return how many of the GPUs of a job are idle, as `2/8`."""
    return f"{'?' if job.all_unknown else job.idle_gpus}/{job.gpus}"


def others_line(view: ClusterView) -> str:
    """Return what the other GPUs do; empty if there is nothing to say."""
    words = {"busy": "busy", "unknown": "unknown", "out": "out of service"}
    told = [(view.counts[state], word) for state, word in words.items()]
    return ", ".join(f"{number:,} {word}" for number, word in told if not isinstance(number, Unknown) and number)


def follows(job: JobLine) -> str:
    """Return what comes next for a job, and why it does not."""
    if job.is_filled:
        return ""  # that it is a background job says it
    said: list[str] = []
    if job.could_do_with is not None:
        said.append(f"used {job.could_do_with} of {job.gpus} at most")
    left = job.left_alone or job.opt_out
    if left is not None:
        said.append(f"left alone: {left}")
    elif job.refused is not None:
        said.append(f"nothing is done: {job.refused}")
    elif job.action in _FOLLOWS and job.idle_s:
        said.append(f"{_FOLLOWS[job.action]} in {duration_for_people(max(0.0, job.in_s))}")
    elif not job.rule and job.idle_gpus:
        said.append("no rule covers it")
    if job.no_way is not None and job.action != "nothing":
        said.append(f"cannot be stopped: {job.no_way}")
    return "; ".join(said)


def where(job: JobLine) -> str:
    """Return the partition or namespace of a job, and its account."""
    part = job.labels.get("partition") or job.labels.get("namespace") or ""
    account = job.labels.get("account") or ""
    return f"{part}/{account}" if part and account else part or account


def job_lines(job: JobLine) -> list[str]:
    """Return what a job does now and why, what each of its GPUs did, and what follows."""
    whose = ", ".join(part for part in (job.user, where(job)) if part)
    name = "" if isinstance(job.name, Unknown) else f" {job.name}"
    lasted = f" for {duration_for_people(round(job.idle_s))}" if job.idle_s else ""
    idle = "" if job.is_filled else f", {job.idle_gpus} idle"
    gpus = f"{job.gpus} GPU{'' if job.gpus == 1 else 's'}{idle}"
    unknown = f", {job.unknown_gpus} unknown" if job.unknown_gpus else ""
    head = f"{job.subject}{name} ({whose}) is {job.activity.value}{lasted}: holds {gpus}{unknown}: {job.because}"
    lines = [head, *(f"  {place} {did}: {because}" for place, did, because in job.uses)]
    after = follows(job)
    if job.rule or after:
        rule = f"rule {job.rule}" if job.rule else "no rule"
        lines.append(f"  {rule}: {after or 'nothing follows now'}")
    return [printable(line) for line in lines]


def held_words(node: NodeLine) -> str:
    """Return how many GPUs of a node are held, idle and filled, as far as that is known."""
    if isinstance(node.held, Unknown):
        return f"how many of its {node.gpus} GPUs are held is not known"
    does = "and what they do is not known" if isinstance(node.idle, Unknown) else f"{node.idle} of them idle"
    filled = f", {node.filled} filled" if node.filled else ""
    return f"{node.held} of {node.gpus} GPUs held{filled}, {does}"


def node_line(node: NodeLine) -> str:
    """Return one node."""
    trouble = "" if node.trouble is None else f"; no job can begin there: {node.trouble}"
    return printable(f"node {node.name}: {held_words(node)}{trouble}")
