"""A real Kubernetes control plane on loopback: etcd, kube-apiserver and kube-controller-manager.

There is no kubelet: nodes are made by hand, pods name their node, the tests write their status, and a pod that
is deleted is gone at once. Ports, folders, certificate and tokens are its own, so several run side by side. Its
programs end with the thread that brought them up, so nothing of it can be left behind.
"""

import http.client
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import yaml

from tests.places import LIMIT_S, REPOSITORY
from tests.ports import free_ports
from tests.waiting import until

ASSETS = pathlib.Path(os.environ.get("KUBEBUILDER_ASSETS") or "/usr/local/kubebuilder/bin")
MANIFESTS = REPOSITORY / "examples" / "kubernetes"
ADMIN = "the-token-of-the-admin"
_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")
_TOOLS = ("setpriv", "openssl")
_CONTROLLERS = "deployment,replicaset,statefulset,job,serviceaccount,serviceaccount-token,disruption"
Object = Mapping[str, Any]
PLURALS = {"InferenceService": "inferenceservices", "RayCluster": "rayclusters"}
_OF_CLUSTER = frozenset(("Namespace", "Node", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"))


class Refused(Exception):
    """What the API server answered when it did not do what was asked."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class ControlPlane:
    """A control plane that runs until it is closed."""

    def __init__(self) -> None:
        missing = [str(ASSETS / name) for name in _PROGRAMS if not os.access(ASSETS / name, os.X_OK)]
        missing += [name for name in _TOOLS if not shutil.which(name)]
        if missing:
            pytest.skip(f"there is no {', '.join(missing)}; try scripts/engines kubernetes")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fallow-kubernetes-"))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._etcd, self._peers, self._port = free_ports(3)
        try:
            self._bring_up()
        except BaseException:
            self.close()
            raise

    def __call__(self, method: str, path: str, body: Object | None = None, token: str = ADMIN) -> Any:
        """Ask the API server; return its object, or raise Refused."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        context = ssl.create_default_context(cafile=str(self._certificate))
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=LIMIT_S, context=context)
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, {"Authorization": f"Bearer {token}", "Content-Type": kind})
            answer = connection.getresponse()
            raw = answer.read()
        finally:
            connection.close()
        said = json.loads(raw) if raw.startswith(b"{") else {"message": raw.decode(errors="replace")}
        if answer.status >= 300:
            raise Refused(answer.status, said.get("message", ""))
        return said

    def apply(self, manifest: str) -> None:
        """Make all objects of a manifest."""
        for each in yaml.safe_load_all(manifest):
            self.make(each)

    def make(self, what: Object) -> Any:
        """Make one object."""
        kind, namespace = what["kind"], what["metadata"].get("namespace", "default")
        root = f"/apis/{what['apiVersion']}" if "/" in what["apiVersion"] else f"/api/{what['apiVersion']}"
        within = "" if kind in _OF_CLUSTER else f"/namespaces/{namespace}"
        return self("POST", f"{root}{within}/{PLURALS.get(kind, kind.lower() + 's')}", what)

    def kubeconfig(self, token: str) -> pathlib.Path:
        """Write a kubeconfig of the one who has this token."""
        path = self.folder / f"kubeconfig-{uuid.uuid4().hex}"
        about = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
            "clusters": [
                {
                    "name": "tests",
                    "cluster": {
                        "server": f"https://127.0.0.1:{self._port}",
                        "certificate-authority": str(self._certificate),
                    },
                }
            ],
            "users": [{"name": "tests", "user": {"token": token}}],
        }
        path.write_text(yaml.safe_dump(about))
        path.chmod(0o600)
        return path

    def token_of(self, account: str, namespace: str) -> str:
        """Return the token of a ServiceAccount, which the controller manager has made."""
        import base64

        def found() -> str:
            with suppress(Refused):
                said = self("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}")
                for each in said.get("secrets", ()):
                    secret = self("GET", f"/api/v1/namespaces/{namespace}/secrets/{each['name']}")
                    return base64.b64decode(secret["data"]["token"]).decode()
            return ""

        return until(found, pause_s=0.1)

    def account(self, name: str, namespace: str, rules: list[dict[str, list[str]]]) -> str:
        """Return the kubeconfig of a new ServiceAccount that has these rights in the cluster and no others."""
        rbac = "rbac.authorization.k8s.io"
        self.make({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}})
        self.make({"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
        self.make(
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
            }
        )
        return str(self.kubeconfig(self.token_of(name, namespace)))

    def kill_api_server(self) -> None:
        """Kill the API server, as a crash does."""
        self._end("kube-apiserver")

    def start_api_server(self) -> None:
        """Start the API server again, on the same port and the same data, and wait until it is ready."""
        self._start_api_server()
        self._wait_until_ready()

    def close(self) -> None:
        """End everything."""
        for name in reversed(list(self._processes)):
            self._end(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _certificate(self) -> pathlib.Path:
        return self.folder / "certs" / "apiserver.crt"

    def _bring_up(self) -> None:
        at = "http://127.0.0.1"
        (self.folder / "tokens.csv").write_text(f'{ADMIN},admin,admin,"system:masters"\n')
        subprocess.run(["openssl", "genrsa", "-out", self._key, "2048"], check=True, capture_output=True)
        self._start(
            "etcd",
            f"--data-dir={self.folder}/etcd",
            f"--listen-client-urls={at}:{self._etcd}",
            f"--advertise-client-urls={at}:{self._etcd}",
            f"--listen-peer-urls={at}:{self._peers}",
            f"--initial-advertise-peer-urls={at}:{self._peers}",
            f"--initial-cluster=default={at}:{self._peers}",
        )
        self._start_api_server()
        self._wait_until_ready()
        self._start(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig(ADMIN)}",
            f"--controllers={_CONTROLLERS}",
            f"--service-account-private-key-file={self._key}",
            f"--root-ca-file={self._certificate}",
            "--leader-elect=false",
            "--port=0",
            "--secure-port=0",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        )

    @property
    def _key(self) -> str:
        return str(self.folder / "accounts.key")

    def _start_api_server(self) -> None:
        self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--cert-dir={self.folder}/certs",
            f"--token-auth-file={self.folder}/tokens.csv",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://tests",
            f"--service-account-key-file={self._key}",
            f"--service-account-signing-key-file={self._key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            "--disable-admission-plugins=ServiceAccount",
            "--storage-media-type=application/json",
        )

    def _wait_until_ready(self) -> None:
        def ready() -> bool:
            process = self._processes["kube-apiserver"]
            assert process.poll() is None, self._log("kube-apiserver")
            with suppress(OSError, Refused):
                self("GET", "/readyz")
                self("GET", "/api/v1/namespaces/default")  # which it makes itself, some time after it is ready
                return True
            return False

        until(ready, pause_s=0.1)

    def _start(self, name: str, *options: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", "--", str(ASSETS / name), *options],
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "ETCD_UNSUPPORTED_ARCH": "arm64"},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _end(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait(LIMIT_S)

    def _log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]


class Namespace:
    """A namespace of its own for one test, with objects that hold GPUs."""

    def __init__(self, plane: ControlPlane, annotations: Mapping[str, str] | None = None) -> None:
        self.plane = plane
        self.name = f"ns-{uuid.uuid4().hex[:10]}"
        plane.make(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": self.name, "annotations": dict(annotations or {})},
            }
        )

    def make(self, api: str, kind: str, name: str, spec: Object, **metadata: Any) -> Any:
        """Make an object here."""
        about = {"name": name, "namespace": self.name, **metadata}
        return self.plane.make({"apiVersion": api, "kind": kind, "metadata": about, "spec": spec})

    def run(self, kind: str, name: str, *, replicas: int = 2, gpus: int = 1, **annotations: str) -> list[str]:
        """Make a Deployment, StatefulSet or ReplicaSet, and let its pods run; return their names."""
        self.create(kind, name, replicas, gpus, **annotations)
        return self.let_run(name, replicas)

    def create(self, kind: str, name: str, replicas: int, gpus: int = 1, **annotations: str) -> None:
        """Make a Deployment, StatefulSet or ReplicaSet."""
        spec: dict[str, Any] = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec(gpus)},
        }
        if kind == "StatefulSet":
            spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
        self.make("apps/v1", kind, name, spec, annotations={k.replace("_", "."): v for k, v in annotations.items()})

    def let_run(self, app: str, count: int) -> list[str]:
        """Write the status of the pods of an app as a kubelet would, once they are there."""
        names = until(lambda: self.pods(app), lambda found: len(found) == count, pause_s=0.05)
        for each in names:
            self.say_that_it_runs(each)
        return names

    def say_that_it_runs(self, pod: str) -> None:
        """Write the status of a pod as a kubelet would."""
        status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
        self.plane("PATCH", f"/api/v1/namespaces/{self.name}/pods/{pod}/status", {"status": status})

    def pods(self, app: str) -> list[str]:
        """Return the pods of an app."""
        found = self.plane("GET", f"/api/v1/namespaces/{self.name}/pods?labelSelector=app%3D{app}")
        return sorted(each["metadata"]["name"] for each in found["items"])

    def get(self, kind: str, name: str) -> Any:
        """Return an object of apps/v1."""
        return self.plane("GET", f"/apis/apps/v1/namespaces/{self.name}/{kind.lower()}s/{name}")

    def annotate(self, kind: str, name: str, annotations: Mapping[str, str | None]) -> None:
        """Write annotations on an object of apps/v1."""
        path = f"/apis/apps/v1/namespaces/{self.name}/{kind.lower()}s/{name}"
        self.plane("PATCH", path, {"metadata": {"annotations": dict(annotations)}})

    def events(self, name: str) -> list[Any]:
        """Return the Events about an object that fallow wrote."""
        found = self.plane("GET", f"/api/v1/namespaces/{self.name}/events")["items"]
        return [
            each
            for each in found
            if each["involvedObject"]["name"] == name and each["source"].get("component") == "fallow"
        ]


def pod_spec(gpus: int, resource: str = "nvidia.com/gpu") -> dict[str, Any]:
    """A pod that needs no scheduler, and no kubelet to be deleted."""
    container = {"name": "main", "image": "none", "resources": {"limits": {resource: gpus}}}
    return {"nodeName": "gpu1", "terminationGracePeriodSeconds": 0, "containers": [container]}


def gpu_node(name: str, gpus: int = 8) -> Object:
    """A node with GPUs, as its kubelet would report it."""
    resources = {"cpu": "64", "memory": "512Gi", "pods": "200", "nvidia.com/gpu": str(gpus)}
    ready = {"type": "Ready", "status": "True", "reason": "ByHand", "message": ""}
    status = {"capacity": resources, "allocatable": resources, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


@contextmanager
def control_plane() -> Iterator[ControlPlane]:
    """Bring a control plane up with one node of 8 GPUs, and take it down."""
    made = ControlPlane()
    try:
        made.make(gpu_node("gpu1"))
        yield made
    finally:
        made.close()
