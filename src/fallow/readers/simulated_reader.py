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
from fallow.core.value import fields, replace
from fallow.readers.proc import TICKS_PER_S, Proc, Stat

_MODELS = {  # with GiB of memory
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
_PART = r"(?:([1-9]\d?)X)?([A-Z0-9]+)"
_NOT_REAL = Unknown("a simulated GPU has none")
_SHORTEST_WINDOW_S = 1.05  # a job that works once a second must show at the first look
_LEAST_WINDOW_S = 0.2  # the kernel counts CPU time in steps of 0.01 s
_LEAST_S = 0.02  # who had a core for less has waited all the time, and so wants to work


def machine(spec: str) -> list[tuple[str, int]]:
    """Return name and memory in bytes of the GPUs of `8xH100`, `4xA100,2xT4`, or `4` of the usual model."""
    cards: list[tuple[str, int]] = []
    for part in spec.upper().split(","):
        word = part.strip()
        match = re.fullmatch(_PART, f"{word}XH100" if word.isdigit() and word not in _MODELS else word)
        if match is None or match[2] not in _MODELS:
            raise WrongUsage(
                f"{spec!r} is not a simulated machine", f"write 8xH100, with one of {', '.join(_MODELS)}"
            )
        name, gib = _MODELS[match[2]]
        cards.extend([(name, gib * 2**30)] * int(match[1] or 1))
    return cards


def own_machine(uid: int) -> dict[str, str]:
    """Return what the environment of this user's processes says of a simulated machine where it says nothing.

    It depends on the user alone: others can find out on which machine a process is.
    """
    folder = f"/tmp/fallow-simulated-{uid}"  # noqa: S108  used only if nobody else can enter it
    return {"FALLOW_CLAIM_DIR": f"{folder}/claims", "FALLOW_SOCKET": f"{folder}/fallow.sock"}


def _same_machine(ours: Mapping[str, str], theirs: Mapping[str, str], uid: int) -> bool:
    """Return whether a process of this user is on our simulated machine: same GPUs, same claim folder."""
    if _claim_folder(ours, os.geteuid()) != _claim_folder(theirs, uid) or not theirs.get("FALLOW_SIMULATE"):
        return False
    try:
        return machine(ours["FALLOW_SIMULATE"]) == machine(theirs["FALLOW_SIMULATE"])
    except WrongUsage:
        return False


def _claim_folder(environ: Mapping[str, str], uid: int) -> str:
    return environ.get("FALLOW_CLAIM_DIR") or own_machine(uid)["FALLOW_CLAIM_DIR"]


class SimulatedReader:
    """A machine of simulated GPUs."""

    def __init__(self, host: str, clock: Clock, proc: Proc, environ: Mapping[str, str]) -> None:
        """Simulate the machine that FALLOW_SIMULATE names in `environ`; raise WrongUsage if it makes no sense."""
        self._host = host
        self._clock = clock
        self._proc = proc
        self._environ = environ
        cards = machine(environ["FALLOW_SIMULATE"])
        self._memory_bytes = [memory_bytes for _, memory_bytes in cards]
        self._blank = tuple(_blank(index, *card) for index, card in enumerate(cards))
        self._before: dict[tuple[int, int], tuple[float, float]] = {}
        self._before_s: float | None = None
        self._loads: dict[tuple[int, int], float] = {}
        self._window_s = 0.0

    def look(self, depth: Depth) -> Snapshot:
        """Return all GPUs now. The first full look at a held GPU takes a second: CPU use is measured over time."""
        held = self._held()
        if held and depth is Depth.ALL and self._before_s is None:
            self._remember(held)
            self._clock.sleep(_SHORTEST_WINDOW_S)
            held = self._held()
        now_s, wall_s = self._clock.monotonic_s(), self._clock.wall_s()
        elapsed_s = 0.0 if self._before_s is None else now_s - self._before_s
        # Two looks may follow each other at once; what lies between them is too short to tell how busy a process was.
        if elapsed_s >= _LEAST_WINDOW_S:
            self._window_s = elapsed_s
            self._loads = {_key(stat): self._load(stat, elapsed_s) for stats in held.values() for stat in stats}
        gpus = tuple(self._gpu(blank, held.get(blank.index, [])) for blank in self._blank)
        if depth is Depth.ALL and (self._before_s is None or elapsed_s >= _LEAST_WINDOW_S):
            self._remember(held)
        return Snapshot(self._host, simulated=True, at_s=now_s, wall_s=wall_s, gpus=gpus)

    def links(self, gpus: Sequence[Gpu]) -> Links:  # noqa: ARG002  as the protocol has it
        """Return nothing: simulated GPUs have no links."""
        return {}

    def describe(self, snapshot: Snapshot) -> Snapshot:
        """Return the same snapshot, with what /proc knows of each holder."""
        return replace(snapshot, gpus=self._proc.describe_all(snapshot.gpus))

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def _held(self) -> dict[int, list[Stat]]:
        """Return the real processes on each GPU, by index."""
        lookers = {os.getpid(), *self._proc.ancestors(os.getpid())}
        held: dict[int, list[Stat]] = {}
        for pid in self._proc.pids():
            environ = {} if pid in lookers else self._proc.environ(pid) or {}
            given = environ.get("CUDA_VISIBLE_DEVICES")
            uid = self._proc.uid(pid) if given else None
            if not given or uid is None or not _same_machine(self._environ, environ, uid):
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
        loads = [self._loads.get(_key(stat), 0.0) for stat in stats]
        used, total = sum(stat.resident_bytes for stat in stats), self._memory_bytes[blank.index]
        load = _whole_per_cent(sum(loads))
        return replace(
            blank,
            utilization=load,
            memory=Memory(total, min(used, total), max(0, total - used), 0),
            holders=tuple(
                Holder(stat.pid, stat.resident_bytes, _whole_per_cent(own))
                for stat, own in zip(stats, loads, strict=True)
            ),
            recent=Recent(self._window_s, load, load) if self._window_s else NOT_ASKED,
        )

    def _load(self, stat: Stat, elapsed_s: float) -> float:
        if _key(stat) not in self._before:
            return 0.0
        ran_before_s, waited_before_s = self._before[_key(stat)]
        ran_s, waited_s = self._times(stat)
        could_run_s = elapsed_s - max(0.0, waited_s - waited_before_s)
        return (ran_s - ran_before_s) / could_run_s if could_run_s > _LEAST_S else 1.0

    def _times(self, stat: Stat) -> tuple[float, float]:
        """Return how long a process has run, and how long its first thread was ready and had no core."""
        return stat.cpu_ticks / TICKS_PER_S, self._proc.waited_for_a_core_s(stat.pid)


def _key(stat: Stat) -> tuple[int, int]:
    return stat.pid, stat.birth


def _whole_per_cent(load: float) -> float:
    """Return the load as the driver counts it, so that a process that only wakes up now and then counts as 0."""
    return min(1.0, int(100 * load + 1e-9) / 100)


def _blank(index: int, name: str, memory_bytes: int) -> Gpu:
    known = {
        "index": index,
        "uuid": f"GPU-fa110000-0000-4000-8000-{index:012x}",
        "name": name,
        "utilization": 0.0,
        "memory_utilization": 0.0,
        "memory": Memory(memory_bytes, 0, memory_bytes, 0),
        "holders": (),
        "trouble": None,
        "mig": None,
        "minor": index,
        "recent": NOT_ASKED,
    }
    return Gpu(**{**dict.fromkeys(fields(Gpu), _NOT_REAL), **known})  # type: ignore[arg-type]  # by name
