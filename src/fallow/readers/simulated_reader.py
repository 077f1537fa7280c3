"""Read simulated GPUs, which are held by real processes.

The holders of a simulated GPU are the real processes that were given it in CUDA_VISIBLE_DEVICES; its
utilization is their CPU use, its memory their resident memory. Time in which a process was ready and had to wait for
a core does not count: a simulated GPU is as busy on a loaded machine as on a quiet one. So everything works end to
end anywhere, on real processes and real signals. fallow itself and the shells above it do not count as holders.

The environment of a process says which simulated machine it is on: FALLOW_SIMULATE names the GPUs, FALLOW_CLAIM_DIR
the folder in which they are claimed, which is otherwise one of its user's own. A process with other values, such as
a training run on the real GPUs, the tests of another checkout or a job of another user, is on another machine and
holds nothing here.
"""

import os
import re
from collections.abc import Mapping, Sequence

from fallow.core.errors import WrongUsage
from fallow.core.gpu import Gpu, Holder, Memory, Recent, Snapshot
from fallow.core.ports import Clock, Depth, Links
from fallow.core.selection import visible
from fallow.core.unknown import NOT_ASKED, Unknown
from fallow.core.value import replace, value
from fallow.readers.proc import TICKS_PER_S, Proc, Stat

_GIB = 2**30
_MODELS = {
    "H200": ("NVIDIA H200", 141),
    "H100": ("NVIDIA H100 80GB HBM3", 80),
    "A100": ("NVIDIA A100-SXM4-80GB", 80),
    "V100": ("Tesla V100-SXM2-32GB", 32),
    "L40S": ("NVIDIA L40S", 48),
    "A6000": ("NVIDIA RTX A6000", 48),
    "4090": ("NVIDIA GeForce RTX 4090", 24),
    "3090": ("NVIDIA GeForce RTX 3090", 24),
    "T4": ("Tesla T4", 16),
}
_PART = r"(?i:(?:(\d{1,2})x)?([A-Z0-9]+))"
_NO_PROC = Unknown("there is no /proc here, in which the holders of a simulated GPU are")
_NOT_REAL = Unknown("a simulated GPU has none")
_SHORTEST_WINDOW_S = 1.05  # a job that works once a second must show at the first look
_LEAST_WINDOW_S = 0.2  # the kernel counts CPU time in steps of 0.01 s
_LEAST_S = 0.02  # who had a core for less has waited all the time, and so wants to work


@value
class Model:
    """The model of a simulated GPU."""

    name: str
    memory_bytes: int


def machine(spec: str) -> list[Model]:
    """Return the GPUs of `8xH100`, `4xA100,2xT4`, or `4` of the usual model."""
    cards: list[Model] = []
    for part in spec.split(","):
        word = part.strip()
        match = re.fullmatch(_PART, f"{word}xH100" if word.isdigit() and word not in _MODELS else word)
        kind = match[2].upper() if match else ""
        if match is None or kind not in _MODELS or (match[1] is not None and int(match[1]) == 0):
            raise WrongUsage(
                f"{spec!r} is not a simulated machine", f"write 8xH100, with one of {', '.join(_MODELS)}"
            )
        name, gib = _MODELS[kind]
        cards.extend([Model(name, gib * _GIB)] * int(match[1] or 1))
    return cards


def own_machine(uid: int) -> dict[str, str]:
    """Return what the environment of this user's processes says of a simulated machine where it says nothing.

    It depends on the user alone: others can find out on which machine a process is.
    """
    folder = f"/tmp/fallow-simulated-{uid}"  # noqa: S108  used only if nobody else can enter it
    return {"FALLOW_CLAIM_DIR": f"{folder}/claims", "FALLOW_SOCKET": f"{folder}/fallow.sock"}


def same_machine(ours: Mapping[str, str], theirs: Mapping[str, str], uid: int) -> bool:
    """Return whether a process of this user is on our simulated machine: same GPUs, same claim folder."""
    if _claim_folder(ours, os.geteuid()) != _claim_folder(theirs, uid):
        return False
    spec, other = ours.get("FALLOW_SIMULATE"), theirs.get("FALLOW_SIMULATE")
    if not spec or not other:
        return False
    try:
        return spec == other or machine(spec) == machine(other)
    except WrongUsage:
        return False


def _claim_folder(environ: Mapping[str, str], uid: int) -> str:
    return environ.get("FALLOW_CLAIM_DIR") or own_machine(uid)["FALLOW_CLAIM_DIR"]


@value
class _Times:
    """How long a process has run, and how long its first thread was ready and had no core."""

    ran_s: float
    waited_s: float


class SimulatedReader:
    """A machine of simulated GPUs."""

    def __init__(self, host: str, clock: Clock, proc: Proc, environ: Mapping[str, str]) -> None:
        """Simulate the machine that FALLOW_SIMULATE names in `environ`; raise WrongUsage if it makes no sense."""
        self._host = host
        self._clock = clock
        self._proc = proc
        self._environ = environ
        self._blank = tuple(_blank(index, model) for index, model in enumerate(machine(environ["FALLOW_SIMULATE"])))
        self._before: dict[tuple[int, int], _Times] = {}
        self._before_s: float | None = None
        self._loads: dict[tuple[int, int], float] = {}
        self._window_s = 0.0

    def look(self, depth: Depth) -> Snapshot:
        """Return all GPUs now. The first full look at a held GPU takes a second: CPU use is measured over time."""
        wall_s = self._clock.wall_s()
        held = self._held()
        if depth is Depth.ALL and self._before_s is None and held:
            self._remember(held)
            self._clock.sleep(_SHORTEST_WINDOW_S)
            wall_s = self._clock.wall_s()
            held = self._held()
        now_s = self._clock.monotonic_s()
        if held is None:
            blind = tuple(
                replace(blank, utilization=_NO_PROC, memory=_NO_PROC, holders=_NO_PROC) for blank in self._blank
            )
            return Snapshot(self._host, simulated=True, at_s=now_s, wall_s=wall_s, gpus=blind)
        elapsed_s = 0.0 if self._before_s is None else now_s - self._before_s
        # Two looks may follow each other at once; what lies between them is too short to tell how busy a process was.
        if elapsed_s >= _LEAST_WINDOW_S:
            self._window_s = elapsed_s
            self._loads = {_key(stat): self._load(stat, elapsed_s) for stats in held.values() for stat in stats}
        gpus = [self._gpu(blank, held.get(blank.index, [])) for blank in self._blank]
        if depth is Depth.ALL and (self._before_s is None or elapsed_s >= _LEAST_WINDOW_S):
            self._remember(held)
        return Snapshot(self._host, simulated=True, at_s=now_s, wall_s=wall_s, gpus=tuple(gpus))

    def links(self, gpus: Sequence[Gpu]) -> Links:  # noqa: ARG002  as the protocol has it
        """Return nothing: simulated GPUs have no links."""
        return {}

    def describe(self, snapshot: Snapshot) -> Snapshot:
        """Return the same snapshot, with what /proc knows of each holder."""
        return replace(snapshot, gpus=self._proc.describe_all(snapshot.gpus))

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def _held(self) -> dict[int, list[Stat]] | None:
        """Return the real processes on each GPU, by index; None if /proc does not even show this process."""
        myself = os.getpid()
        if self._proc.stat(myself) is None:
            return None
        lookers = {myself, *self._proc.ancestors(myself)}
        held: dict[int, list[Stat]] = {}
        for pid in self._proc.pids():
            if pid in lookers:
                continue
            environ = self._proc.environ(pid) or {}
            given = environ.get("CUDA_VISIBLE_DEVICES")
            uid = self._proc.uid(pid) if given else None
            if not given or uid is None or not same_machine(self._environ, environ, uid):
                continue
            stat = self._proc.stat(pid)
            if stat is None or stat.state in "ZX":
                continue
            for gpu in visible(given, self._blank):
                held.setdefault(gpu.index, []).append(stat)
        return held

    def _remember(self, held: Mapping[int, Sequence[Stat]]) -> None:
        self._before = {_key(stat): self._times(stat) for stats in held.values() for stat in stats}
        self._before_s = self._clock.monotonic_s()

    def _gpu(self, blank: Gpu, stats: Sequence[Stat]) -> Gpu:
        loads = {stat.pid: self._loads.get(_key(stat), 0.0) for stat in stats}
        # The driver counts in whole per cent, so a process that only wakes up now and then counts as 0.
        total = min(1.0, int(100 * sum(loads.values()) + 1e-9) / 100)
        holders = tuple(
            Holder(
                stat.pid,
                memory_bytes=stat.resident_bytes,
                utilization=min(1.0, int(100 * loads[stat.pid]) / 100),
            )
            for stat in stats
        )
        used = sum(stat.resident_bytes for stat in stats)
        return replace(
            blank,
            utilization=total,
            memory=_memory(blank, used),
            holders=holders,
            recent=Recent(self._window_s, total, total) if self._window_s else NOT_ASKED,
        )

    def _load(self, stat: Stat, elapsed_s: float) -> float:
        before = self._before.get(_key(stat))
        if before is None:
            return 0.0
        now = self._times(stat)
        could_run_s = elapsed_s - max(0.0, now.waited_s - before.waited_s)
        ran_s = now.ran_s - before.ran_s
        return ran_s / could_run_s if could_run_s > _LEAST_S else 1.0

    def _times(self, stat: Stat) -> "_Times":
        return _Times(stat.cpu_ticks / TICKS_PER_S, self._proc.waited_for_a_core_s(stat.pid))


def _key(stat: Stat) -> tuple[int, int]:
    return stat.pid, stat.birth


def _blank(index: int, model: Model) -> Gpu:
    return Gpu(
        index=index,
        uuid=f"GPU-fa110000-0000-4000-8000-{index:012x}",
        name=model.name,
        utilization=0.0,
        memory_utilization=0.0,
        memory=Memory(model.memory_bytes, 0, model.memory_bytes, 0),
        holders=(),
        temperature_c=_NOT_REAL,
        minor=index,
        power_w=_NOT_REAL,
        power_limit_w=_NOT_REAL,
        sm_clock_mhz=_NOT_REAL,
        memory_clock_mhz=_NOT_REAL,
        throttled_by=_NOT_REAL,
        performance_state=_NOT_REAL,
        counters=_NOT_REAL,
        pcie_rx_bytes_per_s=_NOT_REAL,
        pcie_tx_bytes_per_s=_NOT_REAL,
    )


def _memory(blank: Gpu, used: int) -> Memory | Unknown:
    if isinstance(blank.memory, Unknown):
        return blank.memory
    total = blank.memory.total_bytes
    return Memory(total, min(used, total), max(0, total - used), 0)
