"""A server on loopback that answers as an API server must not."""

import json
import pathlib
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Answer = tuple[int, Any]
"""A status, and an object, or bytes as they are."""


class BrokenApi:
    """Answers each path as it was told to, and keeps what it was asked to change."""

    def __init__(self, home: pathlib.Path) -> None:
        self.answers: dict[str, Answer] = {}
        """By path, with its query where that was told too."""
        self.changes: list[tuple[str, str, Any]] = []
        self.pause_s = 0.0
        """How long it waits after each byte of an answer."""
        broken = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def answer(self) -> None:
                sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.command != "GET":
                    broken.changes.append((self.command, self.path, json.loads(sent)))
                plain = urlsplit(self.path).path
                status, body = broken.answers.get(self.path) or broken.answers.get(plain) or (404, {})
                raw = body if isinstance(body, bytes) else json.dumps(body).encode()
                with suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.end_headers()
                    for at in range(0, len(raw), 1 if broken.pause_s else 1 << 16):
                        self.wfile.write(raw[at : at + (1 if broken.pause_s else 1 << 16)])
                        self.wfile.flush()
                        time.sleep(broken.pause_s)

            do_GET = do_PATCH = do_POST = answer  # noqa: N815  the library's names

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.kubeconfig = home / "kubeconfig"
        url = f"http://127.0.0.1:{self._server.server_address[1]}"
        about = {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": {"server": url}}],
            "users": [{"name": "x", "user": {"token": "t"}}],
        }
        self.kubeconfig.write_text(json.dumps(about))  # which is YAML, too

    def close(self) -> None:
        """Close its port."""
        self._server.shutdown()
        self._server.server_close()


def listed(*objects: Mapping[str, Any], onward: str = "") -> Answer:
    """Return a list of objects, as a page of several if it goes on."""
    return 200, {"items": list(objects), "metadata": {"continue": onward} if onward else {}}


def pod(name: str, owner: str = "", gpus: object = "1", **metadata: Any) -> dict[str, Any]:
    """Return a pod that runs with GPUs, below a Deployment if one is named."""
    above = {"apiVersion": "apps/v1", "kind": "Deployment", "name": owner, "uid": f"uid-{owner}", "controller": True}
    about = {"name": name, "namespace": "ml", "uid": f"uid-{name}", **metadata}
    if owner:
        about["ownerReferences"] = [above]
    container = {"resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return {
        "metadata": about,
        "spec": {"nodeName": "n1", "containers": [container]},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"},
    }


def deployment(name: str, replicas: object = 2, **metadata: Any) -> dict[str, Any]:
    """Return a Deployment."""
    about = {
        "name": name,
        "namespace": "ml",
        "uid": f"uid-{name}",
        "generation": 1,
        "resourceVersion": "7",
        **metadata,
    }
    return {"metadata": about, "spec": {"replicas": replicas}}
