"""The connection to a cluster's API: where it is, who we are there, and one bounded question at a time.

lightkube reads the kubeconfig or the service account of the pod that we are in, renews its token, and checks the
server's certificate. A program that the kubeconfig names to get a token is run here and not by lightkube, which would
wait for it for ever. The answers stay plain JSON, read up to a limit: a cluster may hold anything.
"""

import json
from collections.abc import Callable, Mapping, Sequence

from fallow.core.errors import FallowError
from fallow.core.kube_api import MERGE, KubeAnswer, Question
from fallow.core.ports import Clock
from fallow.core.units import shortened
from fallow.core.unknown import Unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    import httpx2
    from lightkube.config.kubeconfig import SingleConfig
    from lightkube.config.models import User, UserExec

RunPlugin = Callable[[Sequence[str], Mapping[str, str], float], bytes | Unknown]
"""Returns what a program prints that gets these variables besides ours, and may take so many seconds."""
_REFUSED = 401
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
        run_plugin: RunPlugin,
        kubeconfig: str = "",
        *,
        within_s: float = _ANSWERS_WITHIN_S,
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        """Without a kubeconfig it is the cluster that we run in, or what KUBECONFIG names, or ~/.kube/config."""
        self._clock = clock
        self._run_plugin = run_plugin
        self._kubeconfig = kubeconfig
        self._within_s = within_s
        self._most_bytes = most_bytes
        self._client: httpx2.Client | None = None
        self._token_is_of_plugin = False

    def __call__(self, question: Question) -> KubeAnswer | Unknown:
        """Return the answer of the API server, or why there is none."""
        try:
            return self._answer(question)
        except Exception as error:  # noqa: BLE001  a kubeconfig, its plugin and a server can fail in any way
            self.close()  # the next question reads the kubeconfig again
            said = shortened(str(error), _LONGEST_COMPLAINT) or type(error).__name__
            return Unknown(f"the Kubernetes API cannot be asked: {said}")

    def _answer(self, question: Question) -> KubeAnswer | Unknown:
        answer = self._asked(self._connected(), question)
        if isinstance(answer, KubeAnswer) and answer.status == _REFUSED and self._token_is_of_plugin:
            self.close()  # the token has ended, and the plugin gives another
            answer = self._asked(self._connected(), question)
        return answer

    def close(self) -> None:
        """Close the connection; the next question opens another."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> "httpx2.Client":
        if self._client is None:
            import httpx2  # noqa: PLC0415  only who has a cluster waits for it to load
            from lightkube.config.client_adapter import Client, ConnectionParams  # noqa: PLC0415

            config = self._config()
            if config is None or config.user is None:
                raise ValueError("the kubeconfig names no user in its current context")
            self._use_plugin(config.user)
            timeout = httpx2.Timeout(min(_SILENT_FOR_S, self._within_s))
            self._client = Client(config, ConnectionParams(timeout=timeout))
        return self._client

    def _config(self) -> "SingleConfig | None":
        """Return what the kubeconfig, or the pod that we are in, says of the cluster and of us."""
        from lightkube.config.kubeconfig import KubeConfig  # noqa: PLC0415

        try:
            found = KubeConfig.from_file(self._kubeconfig) if self._kubeconfig else KubeConfig.from_env()
            return found.get()
        except OSError as error:
            raise FallowError(f"the kubeconfig {error.filename} cannot be read: {error.strerror}") from None
        except (AttributeError, LookupError, TypeError):  # lightkube takes for granted that all of it is there
            raise FallowError("the kubeconfig is none: it has no clusters, users and contexts") from None

    def _use_plugin(self, user: "User") -> None:
        """Give the user the token of the program that the kubeconfig names for it, if it has no other."""
        plugin = user.exec
        self._token_is_of_plugin = plugin is not None and user.token is None and user.token_file is None
        if plugin is not None and self._token_is_of_plugin:
            user.token = self._token_of(plugin)

    def _token_of(self, plugin: "UserExec") -> str:
        about = {"apiVersion": plugin.apiVersion, "kind": "ExecCredential", "spec": {"interactive": False}}
        variables = {each.name: each.value for each in plugin.env or ()}
        variables["KUBERNETES_EXEC_INFO"] = json.dumps(about)
        printed = self._run_plugin((plugin.command, *(plugin.args or ())), variables, self._within_s)
        if isinstance(printed, Unknown):
            raise FallowError(f"the exec plugin of the kubeconfig gives no token: {printed.why}")
        try:
            token = json.loads(printed)["status"]["token"]
        except (ValueError, RecursionError, LookupError, TypeError):
            token = None
        if not isinstance(token, str) or not token:
            raise FallowError(f"the exec plugin of the kubeconfig, {plugin.command}, printed no token")
        return token

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
            question.method,
            question.path,
            params=dict(question.params),
            headers=headers,
            content=content,
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
