"""`/api/v1/cluster`: the jobs, nodes and GPUs of the cluster that the daemon watches."""

from starlette.requests import Request
from starlette.responses import Response

from fallow.core.cluster_names import KIND_WORDS, cluster_target
from fallow.core.cluster_view import cluster_view, meant, narrowed, with_uses
from fallow.core.errors import WrongUsage
from fallow.core.protections import ClusterPart, OneClusterJob, OneUser
from fallow.core.value import replace
from fallow.engine.daemon.sources import Sources
from fallow.interfaces.render import cluster_json
from fallow.interfaces.web.api_facts import Json
from fallow.interfaces.web.caller import Refused, caller_of
from fallow.interfaces.web.cluster_views import ClusterViews
from fallow.interfaces.web.query import only, text, whole
from fallow.interfaces.web.routes import Routes

_MOST_JOBS = 20_000
_FEW_JOBS = 1_000
_LONGEST_SUBJECT = 200
NO_CLUSTER = "the daemon watches no cluster: its config has no [cluster], or it has not looked at it yet"


def add_cluster(api: Routes, sources: Sources) -> None:
    """Add the route for the cluster."""
    views = ClusterViews()

    @api.get("/api/v1/cluster")
    async def cluster(request: Request) -> Response:
        only(request, "subject", "limit")
        subject = text(request, "subject", longest=_LONGEST_SUBJECT)
        limit = whole(request, "limit", _FEW_JOBS, least=0, most=_MOST_JOBS)
        board = sources.board()
        found = None if board is None else board.cluster
        if board is None or found is None:
            raise Refused(404, "cluster", NO_CLUSTER)
        viewer = board.rights_of(caller_of(request).viewer)
        if subject is None:
            return Json(cluster_json.cluster(narrowed(views.of(found, viewer), limit, _MOST_JOBS)))
        target = _target(subject)
        view = narrowed(cluster_view(meant(found, target), viewer), limit, _MOST_JOBS)
        if isinstance(target, OneClusterJob):
            view = replace(view, jobs=tuple(with_uses(job, found) for job in view.jobs))
        everything = views.of(found, viewer)  # what is available does not depend on the question
        return Json(cluster_json.cluster(replace(view, counts=everything.counts)))


def _target(subject: str) -> OneClusterJob | ClusterPart | OneUser:
    kind, _, rest = subject.partition(":")
    if kind == "user" and rest:
        return OneUser(rest)
    try:
        return cluster_target(subject)
    except WrongUsage as error:
        known = "" if kind in KIND_WORDS else f"; known are: {', '.join(('user', *KIND_WORDS))}"
        raise Refused(422, "usage", f"{error}{known}") from None
