"""Each effect has one file: these files, and no others, touch the world in these ways."""

import ast
import pathlib
from collections.abc import Iterator
from functools import cache

import pytest

from tests.places import REPOSITORY

SOURCE = REPOSITORY / "src" / "fallow"


def modules() -> list[pathlib.Path]:
    return sorted(SOURCE.rglob("*.py"))


@cache
def names_used(path: pathlib.Path) -> frozenset[str]:
    """Return every module imported and every dotted name used in a file."""
    return frozenset(_names_used(path))


def _names_used(path: pathlib.Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Constant) and str(node.value).startswith("/proc"):
            yield "/proc"


def users_of(*names: str) -> set[str]:
    def uses(path: pathlib.Path) -> bool:
        return any(used == name or used.startswith(f"{name}.") for used in names_used(path) for name in names)

    return {str(path.relative_to(SOURCE)) for path in modules() if uses(path)}


@pytest.mark.parametrize(
    ("effect", "names", "doors"),
    [
        # What a thread has used of the CPU is no clock that a test could drive.
        (
            "asks the time",
            ("time", "datetime.now", "datetime.utcnow"),
            {"engine/machine/clock.py", "actuators/process/programs.py"},
        ),
        ("speaks to the driver", ("fallow.readers.nvml_library",), {"readers/nvml.py"}),
        (
            "loads C libraries",
            ("ctypes.CDLL",),
            {
                "readers/nvml_library.py",
                "actuators/process/held_signals.py",
                "actuators/process/signals.py",
                "actuators/host/as_user.py",
                "actuators/host/become_user.py",
                "actuators/host/resource_limits.py",
            },
        ),
        ("speaks CUDA", ("cuda",), {"workloads/cuda.py", "actuators/process/checkpoint.py"}),
        # One reads it; its root is lent to those who look for locks; a process writes there about itself.
        (
            "touches /proc",
            ("/proc", "proc.root"),
            {
                *("readers/proc.py", "readers/proc_machine.py", "readers/sockets.py", "actuators/process/signals.py"),
            },
        ),
        (
            "starts programs",
            ("subprocess", "os.execve", "os.fork", "os.posix_spawn", "os.system"),
            {"actuators/process/spawn.py", "actuators/process/programs.py"},
        ),
        ("signals", ("os.kill", "os.killpg", "signal.pidfd_send_signal"), {"actuators/process/signals.py"}),
        ("listens to files", ("inotify_simple",), {"actuators/claims/waitline.py", "readers/file_events.py"}),
        ("locks", ("fcntl.flock", "fcntl.lockf", "fcntl.F_OFD_SETLK"), {"actuators/files/ofd_locks.py"}),
        ("becomes another user", ("os.initgroups", "os.setresuid", "os.setuid"), {"actuators/host/become_user.py"}),
        (
            "acts in others' names",
            ("fallow.actuators.host.as_user",),
            {"engine/daemon/sources.py", "engine/owners/contact.py"},
        ),
        (
            "draws on terminals",
            ("fallow.interfaces.render.grid",),
            {f"interfaces/render/{name}.py" for name in ("cluster_table", "status_lines", "status_long", "table")},
        ),
        ("asks Kubernetes", ("lightkube", "httpx2"), {"readers/kubernetes/connection.py"}),
        (
            "changes objects of Kubernetes",
            ("fallow.actuators.kubernetes.objects",),
            {
                *("actuators/kubernetes/stop.py", "actuators/kubernetes/wake.py"),
                "engine/cluster/kubernetes.py",
            },
        ),
        ("speaks to Prometheus", ("prometheus_client",), {"interfaces/render/metrics.py"}),
        ("listens for HTTP", ("uvicorn",), {"interfaces/web/connection.py", "interfaces/web/server.py"}),
        (
            "routes HTTP",
            ("starlette.applications", "starlette.routing"),
            {f"interfaces/web/{name}.py" for name in ("app", "routes")},
        ),
        (
            "draws a live screen",
            ("textual",),
            {f"interfaces/top/{name}.py" for name in ("app", "dialogs", "keys", "messages", "widgets")},
        ),
        ("lays out pages", ("jinja2",), {"interfaces/render/report_html.py", "interfaces/web/page_parts.py"}),
    ],
)
def test_each_effect_has_one_door(effect: str, names: tuple[str, ...], doors: set[str]) -> None:
    assert users_of(*names) == doors, f"who {effect}"
