"""Kubernetes as an engine of jobs: one job is what runs pods with GPUs, and is stopped so that they stay away."""

from collections.abc import Mapping

from fallow.actuators.kubernetes.objects import patch, tell
from fallow.actuators.kubernetes.stop import NO_WARNING, Stop, stop
from fallow.core.actions import Ask, CancelWarning, Kill, Warn
from fallow.core.cluster import ClusterJob, Engine, PodGpus
from fallow.core.findings import Outcome
from fallow.core.kube_api import KubeApi
from fallow.core.kubernetes import (
    IDLE_SINCE,
    NAMESPACES,
    NODES,
    PODS,
    PROTECT,
    STOPS_AT,
    KubeObject,
    Way,
    longest_idle_s,
    opt_out,
    time_text,
)
from fallow.core.ports import Clock
from fallow.core.units import duration_for_people, printable
from fallow.core.unknown import Unknown
from fallow.engine.cluster.kube_connection import connection
from fallow.engine.cluster.ports import EngineLook
from fallow.readers.kubernetes.connection import KubeConnection
from fallow.readers.kubernetes.metadata import listed, object_of
from fallow.readers.kubernetes.owners import Owners, Top
from fallow.readers.kubernetes.pods import UNFINISHED, GpuPod, gpu_node, gpu_pod

_IS_GONE = "it was not there at the last look"


class KubernetesEngine:
    """The pods of a cluster that hold GPUs, and what runs them."""

    engine = Engine.KUBERNETES

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._tops: Mapping[str, KubeObject] = {}
        """What runs pods, by the id of its job, as it was at the last look: what is stopped must be the same."""

    def look(self) -> EngineLook:
        """Return what holds GPUs now, the nodes with GPUs, and how many GPUs are waited for."""
        pods = listed(self._api, PODS, gpu_pod, select=UNFINISHED)
        if isinstance(pods, Unknown):
            return EngineLook(pods, pods, pods)
        nodes = listed(self._api, NODES, gpu_node)
        return EngineLook(
            self._jobs([pod for pod in pods if pod.node]),
            nodes if isinstance(nodes, Unknown) else tuple(nodes),
            _waited_for([pod for pod in pods if pod.waits]),
        )

    def way(self, job: ClusterJob, action: Ask | Kill) -> str:
        """Return what the action does, after "would"."""
        top = self._tops.get(job.id)
        kind = None if top is None else top.known
        if isinstance(action, Kill):
            return "leave its pods to Kubernetes, which kills each after its own grace"
        return f"{kind.way}" if kind is not None and kind.way is not None else "do nothing: fallow cannot stop it"

    def warn(self, job: ClusterJob, action: Warn) -> Outcome:
        """Write the warning on the object, and an Event about it."""
        top, now_s = self._tops.get(job.id), self._clock.wall_s()
        if top is None:
            return Outcome(False, _IS_GONE)
        stops_at = time_text(now_s + action.ask_in_s)
        for_s = action.reason.facts.get("for_s", 0.0)
        since = time_text(now_s - for_s) if isinstance(for_s, int | float) else time_text(now_s)
        written = self._annotate(top, {IDLE_SINCE: since, STOPS_AT: stops_at})
        what = _what_follows(top)
        message = printable(
            f"{action.reason}. It will be {what} in {duration_for_people(action.ask_in_s)}, at {stops_at}. To keep"
            f" it: kubectl annotate -n {top.namespace} {top.kind.lower()}/{top.name} {PROTECT}=yes"
        )
        told = tell(self._api, top, "FallowIdle", message, now_s, warning=True)
        words = [each.words for each in (told, written) if each is not None]
        return Outcome(told.ok or (written is not None and written.ok), "; ".join(words))

    def cancel(self, job: ClusterJob, action: CancelWarning) -> Outcome:
        """Take the warning off the object, and write an Event about it."""
        top = self._tops.get(job.id)
        if top is None:
            return Outcome(False, _IS_GONE)
        written = self._annotate(top, NO_WARNING)
        message = printable(f"The warning no longer applies: {action.reason}")
        told = tell(self._api, top, "FallowWarningCancelled", message, self._clock.wall_s(), warning=False)
        words = [each.words for each in (told, written) if each is not None]
        return Outcome(told.ok or (written is not None and written.ok), "; ".join(words))

    def ask(self, job: ClusterJob, action: Ask) -> Outcome:
        """Stop what was judged, in the way of its kind, and write an Event about it."""
        if job.no_way is not None:
            return Outcome(False, job.no_way)
        top, now_s = self._tops.get(job.id), self._clock.wall_s()
        kind = None if top is None else top.known
        if top is None or kind is None:
            return Outcome(False, _IS_GONE if top is None else "fallow does not know how to stop it")
        done = stop(Stop(self._api, top, kind, str(action.reason), now_s))
        if done.ok:
            again = "" if kind.way is Way.EVICT else f" To start it again: fallow wake {_subject(top)}"
            message = printable(f"{done.words}: {action.reason}.{again}")
            tell(self._api, top, "FallowStopped", message, now_s, warning=False)
        return done

    def kill(self, job: ClusterJob, action: Kill) -> Outcome:  # noqa: ARG002  the port's
        """Say what is left: Kubernetes itself kills a pod after its grace."""
        pods = len(job.places)
        left = "1 pod is" if pods == 1 else f"{pods} pods are"
        return Outcome(True, f"{left} still ending; Kubernetes kills each after its own grace")

    def close(self) -> None:
        """Close the connection."""
        if isinstance(self._api, KubeConnection):
            self._api.close()

    def _jobs(self, pods: list[GpuPod]) -> tuple[ClusterJob, ...] | Unknown:
        namespaces = self._namespaces() if pods else {}
        if isinstance(namespaces, Unknown):
            return namespaces
        tops = Owners(self._api).tops(pod.itself for pod in pods)
        below: dict[str, list[GpuPod]] = {}
        found: dict[str, Top] = {}
        for pod in pods:
            top = tops[pod.itself.uid]
            below.setdefault(top.itself.id, []).append(pod)
            found[top.itself.id] = top
        self._tops = {id_: top.itself for id_, top in found.items()}
        return tuple(self._job(found[id_], of_it, namespaces) for id_, of_it in below.items())

    def _job(self, top: Top, pods: list[GpuPod], namespaces: Mapping[str, Mapping[str, str]]) -> ClusterJob:
        itself, kind, now_s = top.itself, top.itself.known, self._clock.wall_s()
        around = namespaces.get(itself.namespace, {})
        said = (opt_out(pod.itself.annotations, f"its pod {pod.itself.name}", now_s) for pod in pods)
        own = (itself.annotations, *(pod.itself.annotations for pod in pods))
        starts = [pod.started_wall_s for pod in pods]
        unknown = next((each for each in starts if isinstance(each, Unknown)), None)
        return ClusterJob(
            Engine.KUBERNETES,
            itself.id,
            itself.name,
            "",
            tuple(
                PodGpus(pod.itself.namespace, pod.itself.name, pod.gpus, pod.itself.uid, pod.doubt, pod.node)
                for pod in pods
            ),
            max(each for each in starts if not isinstance(each, Unknown)) if unknown is None else unknown,
            interactive=kind is not None and kind.interactive,
            labels={"namespace": itself.namespace, "nodes": str(len({pod.node for pod in pods}))},
            opt_out=opt_out(itself.annotations, itself.id, now_s)
            or opt_out(around, f"the namespace {itself.namespace}", now_s)
            or next((each for each in said if each is not None), None),
            idle_for_s=longest_idle_s(own) or longest_idle_s((around,)),
            no_way=top.no_way,
            own_grace_s=max(pod.grace_s for pod in pods),
        )

    def _namespaces(self) -> dict[str, Mapping[str, str]] | Unknown:
        """Return the annotations of each namespace, by its name."""
        found = listed(self._api, NAMESPACES, lambda body: object_of(body, "Namespace", ""), only_metadata=True)
        return found if isinstance(found, Unknown) else {each.name: each.annotations for each in found}

    def _annotate(self, top: KubeObject, annotations: Mapping[str, str | None]) -> Outcome | None:
        """Write on the object itself; None for a pod, on which fallow needs no right to write."""
        kind = top.known
        if kind is None or kind.way is None or kind.way is Way.EVICT:
            return None
        same = {"metadata": {"namespace": top.namespace, "name": top.name, "uid": top.uid}}
        done = patch(self._api, kind.resource, same, annotations=annotations)
        if isinstance(done, str):
            return Outcome(False, done)
        return Outcome(done.ok, "its annotations say so" if done.ok else f"another {top.kind} has its name now")


def kubernetes_engine(clock: Clock, kubeconfig: str = "") -> KubernetesEngine:
    """Return the engine of the cluster that the kubeconfig names, or that we run in."""
    return KubernetesEngine(connection(clock, kubeconfig), clock)


def _waited_for(pods: list[GpuPod]) -> int | Unknown:
    """Return how many GPUs these pods wait for; Unknown if one has a claim, of which that is not known."""
    doubt = next((pod.doubt for pod in pods if pod.doubt), None)
    return sum(pod.gpus for pod in pods) if doubt is None else Unknown(doubt)


def _what_follows(top: KubeObject) -> str:
    kind = top.known
    match None if kind is None else kind.way:
        case Way.SCALE:
            return "scaled to zero"
        case Way.SUSPEND:
            return "suspended"
        case Way.EVICT:
            return "evicted"
        case _:
            return "stopped"


def _subject(top: KubeObject) -> str:
    return f"{top.kind.lower()}:{top.namespace}/{top.name}"
