"""How much host memory processes can still get: what the machine has, and what the limits of their cgroups leave."""

from collections.abc import Iterable, Iterator
from errno import ENODEV

from fallow.core.units import bytes_for_people
from fallow.core.unknown import Unknown
from fallow.readers.proc import Proc
from fallow.readers.proc_files import read_start

_ROOT = "/sys/fs/cgroup"
_DEEPEST = 32
_MOST_OF_STAT = 1 << 16
_UNLIMITED = 1 << 60
_LEAST_MORE_BYTES, _SHARE_MORE = 1 << 30, 0.1
_NAMES = (
    ("", "memory.max", "memory.current", b"inactive_file"),  # version 2
    ("/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", b"total_inactive_file"),  # version 1
)


def room_bytes(proc: Proc, pids: Iterable[int], root: str = _ROOT) -> int | Unknown:
    """Return how many bytes more these processes can have: what the machine and their cgroups leave."""
    room = proc.available_memory_bytes()
    if isinstance(room, Unknown):
        return room
    folders = {folder for pid in pids for path in proc.cgroups(pid) or () for folder in _up(path)}
    for folder in folders:
        for below, most, used, cache in _NAMES:
            left = _left(f"{root}{below}{folder}", most, used, cache)
            if left is not None:
                room = min(room, left)
    return max(0, room)


def needed_bytes(gpu_bytes: int) -> int:
    """Return how much room processes need that are taken off their GPUs with so much GPU memory."""
    return gpu_bytes + max(_LEAST_MORE_BYTES, round(gpu_bytes * _SHARE_MORE))


def why_no_room(proc: Proc, pids: Iterable[int], gpu_bytes: int, others_bytes: int = 0) -> str | None:
    """Return why these processes cannot be taken off their GPUs with so much GPU memory; None if they can.

    `others_bytes`: what is needed for jobs that are on their way into host memory.
    """
    room = room_bytes(proc, pids)
    if isinstance(room, Unknown):
        return f"how much host memory is free is {room}"
    needed = needed_bytes(gpu_bytes)
    if room - others_bytes >= needed:
        return None
    others = f", {bytes_for_people(others_bytes)} of it for jobs that are being parked now" if others_bytes else ""
    return (
        f"its {bytes_for_people(gpu_bytes)} do not fit into host memory: "
        f"{bytes_for_people(room)} are free there{others}, and {bytes_for_people(needed)} are needed"
    )


def _up(path: str) -> Iterator[str]:
    """Yield the folder of a cgroup and of all above it; none for one outside of what is shown here."""
    parts = [part for part in path.split("/") if part]
    if ".." in parts or len(parts) > _DEEPEST:
        return
    for depth in range(len(parts), -1, -1):
        yield "".join(f"/{part}" for part in parts[:depth])


def _left(folder: str, most: str, used: str, cache: bytes) -> int | None:
    """Return what the limit of one cgroup leaves; None if it has none. Files in the cache make room when needed."""
    limit = _number(_read(f"{folder}/{most}"))
    if limit is None or limit >= _UNLIMITED:
        return None
    for line in (_read(f"{folder}/memory.stat") or b"").splitlines():
        name, _, figure = line.partition(b" ")
        if name == cache:
            limit += _number(figure) or 0
    return limit - (_number(_read(f"{folder}/{used}")) or 0)


def _read(path: str) -> bytes | None:
    try:
        return read_start(path, _MOST_OF_STAT)
    except OSError as error:
        if error.errno != ENODEV:  # the cgroup was removed this moment
            raise
        return None


def _number(raw: bytes | None) -> int | None:
    word = b"" if raw is None else raw.strip()
    return int(word) if word.isdigit() and len(word) < 20 else None
