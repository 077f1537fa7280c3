"""The connection to a cluster's API: where it is, who we are there, and one bounded question at a time.

lightkube reads the kubeconfig or the service account of the pod that we are in, renews its token, and checks the
server's certificate. The answers stay plain JSON, read up to a limit: a cluster may hold anything.
"""

import json
from collections.abc import Mapping

from fallow.core.kube_api import MERGE, KubeAnswer, Question
from fallow.core.ports import Clock
from fallow.core.units import printable
from fallow.core.unknown import Unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    import httpx2

_ANSWERS_WITHIN_S = 20.0
_SILENT_FOR_S = 10.0
_MOST_BYTES = 64 << 20
_LONGEST_COMPLAINT = 200
_METADATA_OF_ONE = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_OF_ALL = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class KubeConnection:
    """Asks the API of the cluster that a kubeconfig names, or that we run in."""

    def __init__(
        self,
        clock: Clock,
        kubeconfig: str = "",
        *,
        within_s: float = _ANSWERS_WITHIN_S,
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        """Without a kubeconfig it is the cluster that we run in, or what KUBECONFIG names, or ~/.kube/config."""
        self._clock = clock
        self._kubeconfig = kubeconfig
        self._within_s = within_s
        self._most_bytes = most_bytes
        self._client: httpx2.Client | None = None

    def __call__(self, question: Question) -> KubeAnswer | Unknown:
        """Return the answer of the API server, or why there is none."""
        try:
            return self._asked(self._connected(), question)
        except Exception as error:  # noqa: BLE001  a kubeconfig, its plugin and a server can fail in any way
            self.close()  # the next question reads the kubeconfig again
            said = printable(str(error))[:_LONGEST_COMPLAINT] or type(error).__name__
            return Unknown(f"the Kubernetes API cannot be asked: {said}")

    def close(self) -> None:
        """Close the connection; the next question opens another."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> "httpx2.Client":
        if self._client is None:
            import httpx2  # noqa: PLC0415  only who has a cluster waits for it to load
            from lightkube.config.client_adapter import Client, ConnectionParams  # noqa: PLC0415
            from lightkube.config.kubeconfig import KubeConfig  # noqa: PLC0415

            found = KubeConfig.from_file(self._kubeconfig) if self._kubeconfig else KubeConfig.from_env()
            config = found.get()
            if config is None or config.user is None:
                raise ValueError("the kubeconfig names no user in its current context")
            timeout = httpx2.Timeout(min(_SILENT_FOR_S, self._within_s))
            self._client = Client(config, ConnectionParams(timeout=timeout))
        return self._client

    def _asked(self, client: "httpx2.Client", question: Question) -> KubeAnswer | Unknown:
        until_s = self._clock.monotonic_s() + self._within_s
        headers = {"Accept": "application/json"}
        if question.only_metadata:
            headers["Accept"] = _METADATA_OF_ALL if question.does == "list" else _METADATA_OF_ONE
        content = None
        if question.body is not None:
            headers["Content-Type"] = MERGE if question.does == "patch" else "application/json"
            content = json.dumps(question.body)
        asked = client.stream(
            question.method, question.path, params=dict(question.params), headers=headers, content=content
        )
        body = bytearray()
        with asked as answer:
            for chunk in answer.iter_bytes():
                body += chunk
                if len(body) > self._most_bytes:
                    return Unknown(f"the Kubernetes API answered with more than {self._most_bytes >> 20} MiB")
                if self._clock.monotonic_s() > until_s:
                    return Unknown(f"the Kubernetes API did not answer within {self._within_s:g} s")
            status = answer.status_code
        return KubeAnswer(status, _object(bytes(body), status))


def _object(body: bytes, status: int) -> Mapping[str, object]:
    """Return the object of an answer. A failure may come from a proxy, in words; a success must be an object."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    if status < 300:
        raise ValueError("its answer is no JSON object")
    return {}
