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
from fallow.interfaces.web.api_routes import ApiRoutes
from fallow.interfaces.web.caller import Refused, caller_of
from fallow.interfaces.web.cluster_views import ClusterViews
from fallow.interfaces.web.query_keys import described_text, whole

_MOST_JOBS = 20_000
_FEW_JOBS = 1_000
_LONGEST_SUBJECT = 200
# The parser decides, and words the mistake; what fits this pattern is always right.
_PATTERN = (
    r"^(slurm:[0-9]{1,10}(_[0-9]{1,7})?|(deployment|statefulset|job|pod):[a-z0-9]{1,60}/[a-z0-9]{1,60}"
    r"|(node|partition|account|qos|namespace|user):[A-Za-z0-9_]{1,60})$"
)
_NONE_HERE = {404: "The daemon watches no cluster."}
NO_CLUSTER = "the daemon watches no cluster: its config has no [cluster], or it has not looked at it yet"


def add_cluster(api: ApiRoutes, sources: Sources) -> None:
    """Add the route for the cluster."""
    views = ClusterViews()

    @api.get(
        "/cluster",
        "Cluster",
        "The cluster at its last look",
        keys=(
            described_text("subject", _PATTERN, longest=_LONGEST_SUBJECT),
            whole("limit", _FEW_JOBS, least=0, most=_MOST_JOBS),
        ),
        problems=_NONE_HERE,
    )
    async def cluster(request: Request, subject: str | None, limit: int) -> Response:
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
