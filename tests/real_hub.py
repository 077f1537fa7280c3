"""A real JupyterHub with its culler: its proxy, its servers and their kernels, all on loopback."""

import json
import pathlib
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tests.conftest import BIN
from tests.places import LIMIT_S, QUICK
from tests.ports import free_ports
from tests.waiting import end_group, until

TOKEN = "a-token-of-the-tests"
SPINS = "import threading; threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()"


class Hub:
    """A JupyterHub of the one who runs the tests. All its servers run as that user."""

    def __init__(self, home: pathlib.Path, environ: Mapping[str, str], config: str) -> None:
        """`config` is what an administrator writes into jupyterhub_config.py."""
        self.home = home
        self._ports = front, hub, api = free_ports(3)
        self.url = f"http://127.0.0.1:{front}"
        home.mkdir()
        # The hub gives services a bare environment; without these they would meet the machine's own fallow.
        variables = {name: text for name, text in environ.items() if name.startswith("FALLOW")}
        settings = f"""
c.JupyterHub.bind_url = "{self.url}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{hub}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api}"
c.ConfigurableHTTPProxy.command = ["{BIN}/configurable-http-proxy"]
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = "{home}/{{username}}"
c.Spawner.cmd = ["{BIN}/jupyterhub-singleuser"]
c.Spawner.args = ["--allow-root", "--ServerApp.ip=127.0.0.1"]
c.Spawner.default_url = "/api"
c.Spawner.env_keep = ["PATH", *{list(variables)!r}]
c.Spawner.environment = {{
    "JUPYTERHUB_SINGLEUSER_APP": "jupyter_server.serverapp.ServerApp",
    "JUPYTER_PATH": "{home}/jupyter",
    "JUPYTER_PLATFORM_DIRS": "0",
    "PYTHONPATH": "{QUICK}",
}}
c.JupyterHub.cleanup_servers = True
{config}
for service in c.JupyterHub.services:
    service["environment"] = {variables!r}
c.JupyterHub.services.append({{"name": "tests", "api_token": "{TOKEN}"}})
c.JupyterHub.load_roles.append(
    {{"name": "tests", "scopes": ["admin:users", "admin:servers", "access:servers"], "services": ["tests"]}}
)
"""
        (home / "jupyterhub_config.py").write_text(settings)
        self.process = subprocess.Popen(
            [str(BIN / "jupyterhub"), "-f", str(home / "jupyterhub_config.py")],
            env={**environ, "JUPYTERHUB_CRYPT_KEY": "00" * 32, "PYTHONPATH": QUICK},
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def kernelspec(self, name: str, gpu: str, *, works: bool) -> None:
        """Make a kernel that holds a simulated GPU, and works there from its start on or does nothing."""
        folder = self.home / "jupyter" / "kernels" / name
        folder.mkdir(parents=True)
        words = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        words += [f"--IPKernelApp.exec_lines={SPINS}"] if works else []
        about = {"argv": words, "display_name": name, "language": "python", "env": {"CUDA_VISIBLE_DEVICES": gpu}}
        (folder / "kernel.json").write_text(json.dumps(about))

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Ask the hub, or a server through its proxy."""
        request = urllib.request.Request(
            f"{self.url}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {TOKEN}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            raw = answer.read()
        return json.loads(raw) if raw else {}

    def start_server(self, user: str, kernel: str) -> None:
        """Start a server for a user, and a kernel in it."""
        (self.home / user).mkdir()
        self.ask("POST", f"hub/api/users/{user}")
        self.ask("POST", f"hub/api/users/{user}/server")
        until(lambda: self.is_ready(user), pause_s=0.2)
        self.ask("POST", f"user/{user}/api/kernels", {"name": kernel})

    def is_ready(self, user: str) -> bool:
        """Return whether the server of a user runs."""
        with suppress(urllib.error.URLError):
            return bool(self.ask("GET", f"hub/api/users/{user}")["servers"].get("", {}).get("ready"))
        return False

    def close(self) -> None:
        """End the hub, which ends its proxy and its servers."""
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(LIMIT_S)
        end_group(self.process)
