"""Ask a Jupyter server about one of its kernels: which notebook it is, and whether it runs a cell.

The server is found through its own file beside the connection file of the kernel. That file is its user's to write:
it is read with their rights, and only a server that is an ancestor of the kernel and runs as the same user is asked.
"""

import json
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import islice
from stat import S_ISREG
from typing import Literal

from fallow.core.http import Endpoint, Http
from fallow.core.owner import OwnerFacts
from fallow.core.process import DEEPEST
from fallow.core.units import printable
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.readers.owners.traces import kernel_above
from fallow.readers.proc import Proc

_MOST_OF_FILE = 1 << 16
_LONGEST_NAME = 200
_HUB_TOKEN = "JUPYTERHUB_API_TOKEN"  # noqa: S105  the name of a variable
_BUSY, _IDLE = ("busy",), ("idle", "starting")
Listed = Literal["sessions", "kernels"]
_LISTS: tuple[Listed, ...] = ("sessions", "kernels")


@value
class JupyterServer:
    """A server: where it listens, and what it wants to see of those who ask."""

    endpoint: Endpoint
    base: str
    token: str
    folder: str
    """The folder that its notebooks are in."""

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers that let its user in."""
        return {"Authorization": f"token {self.token}"} if self.token else {}


def find_server(proc: Proc, pid: int) -> JupyterServer | Unknown | None:
    """Return the server that started a kernel; None if no server did. Its user's rights must be taken on before."""
    uid = proc.uid(pid)
    kernel = None if uid is None else kernel_above(proc, pid, uid)
    if kernel is None or uid is None:
        return Unknown("the kernel has ended")
    for parent in islice(proc.ancestors(kernel.pid), DEEPEST):
        before = proc.stat(parent)
        if before is None or proc.uid(parent) != uid:
            break
        raw = _read(f"{kernel.folder}jpserver-{parent}.json", uid)
        if raw is not None:
            server = raw if isinstance(raw, Unknown) else _server(raw, parent, uid, proc)
            # Its pid may be another process's by now, and so may the token that was read.
            now = proc.stat(parent)
            is_same = now is not None and now.birth == before.birth and proc.uid(parent) == uid
            return server if is_same else Unknown("the Jupyter server has ended")
    return None


def listed(http: Http, server: JupyterServer, what: Listed, limit_s: float) -> Mapping[str, OwnerFacts] | Unknown:
    """Return what the server says about its kernels, by their ids: those of notebooks, or all."""
    answer = http(server.endpoint, "GET", f"{server.base}api/{what}", server.headers, limit_s)
    if isinstance(answer, Unknown):
        return answer
    if answer.status in (401, 403):
        return Unknown(f"the Jupyter server refused its own token ({answer.status})")
    if answer.status != 200:
        return Unknown(f"the Jupyter server answered {answer.status}")
    try:
        said = json.loads(answer.body)
        if what == "kernels":
            return {str(each["id"]): _facts(each, "") for each in said}
        return {str(each["kernel"]["id"]): _facts(each["kernel"], _path(server, each["path"])) for each in said}
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return Unknown("the answer of the Jupyter server makes no sense")


def facts_of(kernel: str, ask: Callable[[Listed], Mapping[str, OwnerFacts] | Unknown]) -> OwnerFacts | Unknown:
    """Return what the server says about one kernel; `ask` returns what it lists."""
    for what in _LISTS:
        found = ask(what)
        if isinstance(found, Unknown):
            return found
        if kernel in found:
            return found[kernel]
    return Unknown(f"the Jupyter server does not know the kernel {kernel[:8]}")


def _path(server: JupyterServer, said: object) -> str:
    return printable(f"{server.folder.rstrip('/')}/{str(said).lstrip('/')}")


def _facts(kernel: dict[str, object], path: str) -> OwnerFacts:
    state, active = kernel["execution_state"], kernel.get("last_activity")
    busy = True if state in _BUSY else False if state in _IDLE else Unknown("the kernel is neither busy nor idle")
    active_at_s: float | Unknown
    try:
        active_at_s = datetime.fromisoformat(str(active)).timestamp()
    except (ValueError, OverflowError):
        active_at_s = Unknown("the server does not say when the kernel was last active")
    name = path.rpartition("/")[2][:_LONGEST_NAME] or f"kernel {str(kernel['id'])[:8]}"
    return OwnerFacts(name, busy, active_at_s, path=path)


def _read(path: str, uid: int) -> bytes | Unknown | None:
    """Return a regular file of that user; None if there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Unknown(f"the file of the Jupyter server cannot be read: {error.strerror}")
    try:
        status = os.fstat(fd)
        if not S_ISREG(status.st_mode) or status.st_uid != uid:
            return Unknown("the file of the Jupyter server is not its user's")
        return os.read(fd, _MOST_OF_FILE)
    except OSError as error:
        return Unknown(f"the file of the Jupyter server cannot be read: {error.strerror}")
    finally:
        os.close(fd)


def _server(raw: bytes, pid: int, uid: int, proc: Proc) -> JupyterServer | Unknown:
    try:
        said = json.loads(raw)
        port, sock, base, token = int(said["port"]), str(said.get("sock") or ""), str(said["base_url"]), said["token"]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return Unknown("the file of the Jupyter server makes no sense")
    if not sock and not 0 < port < 65536:
        return Unknown("the file of the Jupyter server has no port")
    if not base.startswith("/") or not base.endswith("/"):
        return Unknown("the file of the Jupyter server makes no sense")
    # Under JupyterHub the server has no token of its own: the one that it was started with lets its user in.
    token = str(token or "") or (proc.variables(pid, _HUB_TOKEN) or {}).get(_HUB_TOKEN, "")
    endpoint = Endpoint(sock, 0 if sock else port, bool(said.get("secure")), frozenset((uid,)), uid)
    return JupyterServer(endpoint, base, token, str(said.get("root_dir") or ""))
