"""Print the cluster as a table: what is available and what is wasted first, then the jobs, then nodes in trouble."""

from collections.abc import Callable, Iterator

from fallow.core.cluster import Engine
from fallow.core.cluster_view import ClusterView, JobLine
from fallow.core.units import duration_for_people, printable, shortened
from fallow.engine.answers.cluster import OLD_S
from fallow.interfaces.render.cluster_text import first_line, follows, idle_share, nothing_held, others_line, where
from fallow.interfaces.render.grid import Column, Screen, Styled

_MOST_SHOWN = 40
_NODES_SHOWN = 20
_NAME_LONG = 44


def show(view: ClusterView, now_s: float, subject: str | None) -> None:
    """Print the table once; `subject`: what was asked for."""
    screen = Screen()
    screen.write(_lines(screen, view, now_s, subject))


def show_live(views: Iterator[ClusterView], wall_s: Callable[[], float], subject: str | None) -> None:
    """Keep one table up to date until Ctrl-C."""
    screen = Screen()
    screen.redraw(_lines(screen, view, wall_s(), subject) for view in views)


def _lines(screen: Screen, view: ClusterView, now_s: float, subject: str | None = None) -> list[str]:
    """Return the first lines, which say what is available and what is wasted, and the table of the jobs."""
    old_s = max(0.0, now_s - view.at_wall_s)
    looked = f"looked {duration_for_people(round(old_s))} ago{', which is long ago' if old_s > OLD_S else ''}"
    mode = "rules act" if view.acts else "rules only report"
    second = "; ".join(part for part in (others_line(view), mode, looked) if part)
    above = [screen.styled(Styled(first_line(view, subject), "bold")), second]
    above += [printable(f"not read: {shortened(each, 200)}; nothing is stopped meanwhile") for each in view.troubles]
    shown = view.jobs[:_MOST_SHOWN]
    if not shown:
        return [*above, _nothing(view, subject)]
    columns = [
        Column("job", folds=True),
        Column("user", folds=True),
        Column("where", folds=True),
        Column("idle", right=True),
        Column("for", right=True),
        Column("because, and what follows", folds=True),
    ]
    table = screen.table(columns, [_row(job) for job in shown])
    more = view.more_jobs + len(view.jobs) - len(shown)
    below = [f"and {more:,} more job{'' if more == 1 else 's'}; --json has all of them"] if more else []
    return [*above, *table, *below, *_nodes(view)]


def _nothing(view: ClusterView, subject: str | None) -> str:
    if subject is not None and subject.startswith("user:") and view.engine is Engine.KUBERNETES:
        return "Kubernetes does not say whose its jobs are; ask for a namespace: namespace:NAME"
    return nothing_held(view, subject)


def _row(job: JobLine) -> list[str | Styled]:
    after = follows(job)
    said = shortened(f"{job.because}; {after}" if after else job.because, 300)
    idle = idle_share(job)
    return [
        shortened(job.subject, _NAME_LONG),
        shortened(job.user, _NAME_LONG) or "-",
        shortened(where(job), _NAME_LONG),
        Styled(idle, "yellow") if job.idle_gpus else idle,
        duration_for_people(round(job.idle_s)) if job.idle_s else "",
        said,
    ]


def _nodes(view: ClusterView) -> list[str]:
    """Return the nodes at which no job can begin, with why."""
    out = [node for node in view.nodes if node.trouble is not None]
    told = [printable(f"node {node.name}: {shortened(node.trouble or '', 120)}") for node in out[:_NODES_SHOWN]]
    more = len(out) - len(told)
    return [*told, f"and {more} more nodes at which no job can begin"] if more > 0 else told
