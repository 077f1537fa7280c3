"""The world that the stand-in library shows: cards, links, faults, counters."""

import contextlib
import ctypes
import fcntl
import mmap
import os
import pathlib
import re
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

from tests.standin import layout
from tests.standin.card import USUAL_METRICS, Card, text

P2P_OK = 0
P2P_NOT_SUPPORTED = 5
TOPOLOGY_SYSTEM = 50

_fence_lock = threading.Lock()


def _fence() -> None:
    """Order the stores before with the stores after, on machines that reorder them.

    Letting go of a lock and taking it again is the barrier that Python has.
    """
    for _ in range(2):
        with _fence_lock:
            pass


def _base_name(function: str) -> str:
    base = re.sub(r"_v\d+$", "", function)
    return "nvmlInit" if base == "nvmlInitWithFlags" else base


class World:
    """A mapped world file. Create one, or attach to one that another process made."""

    def __init__(self, path: pathlib.Path, file: int) -> None:
        """Map an open world file; use create() or attach()."""
        self.path = path
        self._file = file
        self._memory = mmap.mmap(file, ctypes.sizeof(layout.WorldFile))
        self._raw = layout.WorldFile.from_buffer(self._memory)
        self._lock = threading.RLock()
        self._depth = 0
        self._being_written: set[int] = set()

    @classmethod
    def create(
        cls,
        path: pathlib.Path | str,
        cards: int = 8,
        name: str = "NVIDIA H100 80GB HBM3",
        memory_total: int = 80 * 2**30,
        driver_version: str = "580.159.04",
    ) -> "World":
        """Make a world of idle cards. The file appears whole, and any user may write it."""
        if not 1 <= cards <= layout.MAX_CARDS:
            raise ValueError(f"a world has 1 to {layout.MAX_CARDS} cards")
        path = pathlib.Path(path)
        file, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            os.ftruncate(file, ctypes.sizeof(layout.WorldFile))
            world = cls(path, file)
            world._fill(cards, name, memory_total, driver_version)
            os.fchmod(file, 0o666)
            os.replace(temporary, path)
        except BaseException:
            os.close(file)
            os.unlink(temporary)
            raise
        return world

    @classmethod
    def attach(cls, path: pathlib.Path | str) -> "World":
        """Open a world that exists."""
        path = pathlib.Path(path)
        size = ctypes.sizeof(layout.WorldFile)
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        if os.fstat(file).st_size == size:
            world = cls(path, file)
            raw = world._raw
            if (raw.magic, raw.version, raw.size) == (layout.MAGIC, layout.VERSION, size):
                return world
        os.close(file)
        raise ValueError(f"{path} is not a world of this version")

    def _fill(self, cards: int, name: str, memory_total: int, driver_version: str) -> None:
        raw = self._raw
        raw.version = layout.VERSION
        raw.size = ctypes.sizeof(layout.WorldFile)
        raw.cards = cards
        raw.cuda_version = 13000
        raw.driver_version = text(driver_version, 80)
        for row_level, row_status in zip(raw.link_level, raw.link_status, strict=True):
            for i in range(layout.MAX_CARDS):
                row_level[i] = TOPOLOGY_SYSTEM
                row_status[i] = P2P_NOT_SUPPORTED
        machine = os.urandom(4).hex()  # no two worlds have a card in common, or one test would find another's jobs
        for card in self:
            _make_idle(card, name, memory_total, machine)
        raw.magic = layout.MAGIC

    def environ(self, library_dir: pathlib.Path | str) -> dict[str, str]:
        """The variables that make a process see this world through that library."""
        before = os.environ.get("LD_LIBRARY_PATH")
        search = f"{library_dir}:{before}" if before else str(library_dir)
        return {"LD_LIBRARY_PATH": search, "FALLOW_STANDIN_WORLD": str(self.path.resolve())}

    def nodes(self, folder: pathlib.Path) -> dict[str, str]:
        """Make a node for each card in a folder; under this variable CUDA opens them, as it does those of /dev."""
        folder.mkdir(exist_ok=True)
        for card in self:
            (folder / f"nvidia{card.minor}").touch()
        return {"FALLOW_DEVICES": str(folder)}

    def __len__(self) -> int:
        return int(self._raw.cards)

    def __getitem__(self, index: int) -> Card:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return Card(index, self._raw.card[index], self._writing)

    def __iter__(self) -> Iterator[Card]:
        return (self[index] for index in range(len(self)))

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Be the only writer, among threads and among processes."""
        with self._lock:
            if self._depth == 0:
                fcntl.flock(self._file, fcntl.LOCK_EX)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0:
                    fcntl.flock(self._file, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def _writing(self, card: Any) -> Iterator[None]:
        """Change a card under its sequence, which is odd while someone is at it."""
        with self._alone():
            place = ctypes.addressof(card)
            if place in self._being_written:
                yield
                return
            self._being_written.add(place)
            card.sequence |= 1  # odd already if a writer was killed in here
            _fence()
            try:
                yield
            finally:
                _fence()
                card.sequence = (card.sequence + 1) & 0xFFFFFFFF
                self._being_written.remove(place)

    @property
    def init_error(self) -> int:
        """The code that nvmlInit answers; 0 lets it succeed."""
        return int(self._raw.init_error)

    @init_error.setter
    def init_error(self, code: int) -> None:
        self._raw.init_error = code

    @property
    def cuda_version(self) -> int:
        """As cuDriverGetVersion answers: 13000 is CUDA 13.0."""
        return int(self._raw.cuda_version)

    @cuda_version.setter
    def cuda_version(self, version: int) -> None:
        self._raw.cuda_version = version

    def cuda_state(self, pid: int) -> int | None:
        """Where a process of the stand-in libcuda is: 0 running, 1 locked, 2 checkpointed; None: it has none."""
        return next((int(entry.state) for entry in self._raw.cuda if entry.pid == pid), None)

    def cuda_memory(self, card: int) -> dict[int, int]:
        """What each living process holds of a card through the stand-in libcuda, by pid."""
        return {
            int(entry.pid): int(entry.memory[card])
            for entry in self._raw.cuda
            if entry.pid and entry.contexts[card] and entry.state != 2 and _is_alive(entry.pid, entry.pid)
        }

    def spoil(self, card: int, words: int = 1) -> None:
        """Let words of a card's memory go bad, once, at its next kernel that reads or computes."""
        self._raw.bad_words[card] = words

    def link(self, one: int, other: int, *, nvlink: bool = False, level: int = TOPOLOGY_SYSTEM) -> None:
        """Say how two cards hang together; the level is one of NVML's topology levels."""
        status = P2P_OK if nvlink else P2P_NOT_SUPPORTED
        for a, b in ((one, other), (other, one)):
            self._raw.link_level[a][b] = level
            self._raw.link_status[a][b] = status

    def fault(
        self,
        function: str,
        card: int = -1,
        error: int = 0,
        delay_s: float = 0.0,
        never: bool = False,
        mig: int = -1,
        busy: bool = False,
    ) -> int:
        """Put a fault in the way of a call, and return the token to withdraw it by.

        The name goes without version suffix; "*" is every call on that card. Card -1 is
        any card, and calls that are about none. MIG slot -1 is the card with its instances.
        A busy one spends its delay computing, as the calls of a real driver do.
        """
        encoded = text(_base_name(function), layout.FUNCTION_SIZE)
        with self._alone():
            raw = self._raw
            place = next((i for i, f in enumerate(raw.fault) if not f.token), None)
            if place is None:
                raise RuntimeError(f"at most {layout.MAX_FAULTS} faults fit")
            raw.next_token += 1
            token = int(raw.next_token)
            entry = raw.fault[place]
            entry.function = encoded
            entry.card, entry.instance, entry.error = card, mig, error
            entry.delay_us, entry.never, entry.busy = round(delay_s * 1_000_000), never, busy
            _fence()
            entry.token = token
            raw.fault_limit = max(raw.fault_limit, place + 1)
            return token

    def heal(self, token: int | None = None) -> None:
        """Withdraw one fault, or all; whoever waits in it goes on."""
        with self._alone():
            raw = self._raw
            for entry in raw.fault[: raw.fault_limit]:
                if entry.token and token in (None, entry.token):
                    entry.token = 0
            _fence()
            used = [i for i, f in enumerate(raw.fault[: raw.fault_limit]) if f.token]
            raw.fault_limit = max(used, default=-1) + 1

    def calls(self, function: str) -> int:
        """How often that function was called, in all its versions, by all processes."""
        name = _base_name(function).encode()
        counters = self._raw.counter
        return sum(c.calls for c in counters if c.state == 2 and c.function == name)

    def stuck(self) -> int:
        """How many living threads are now held in a fault that never answers."""
        held = 0
        for i, mark in enumerate(self._raw.stuck):
            if not mark:
                continue
            if _is_alive(mark >> 32, mark & 0xFFFFFFFF):
                held += 1
            elif self._raw.stuck[i] == mark:
                self._raw.stuck[i] = 0  # killed while held: nobody else takes the mark away
        return held

    def close(self) -> None:
        """Let go of the file; the world itself stays for those who have it open."""
        if self._file < 0:
            return
        os.close(self._file)
        self._file = -1
        del self._raw
        with contextlib.suppress(BufferError):  # a card is still in someone's hands
            self._memory.close()

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_alive(pid: int, thread: int) -> bool:
    try:
        stat = pathlib.Path(f"/proc/{pid}/task/{thread}/stat").read_bytes()
    except OSError:
        return False
    state = stat.rpartition(b")")[2].split()[:1]
    return state not in ([b"Z"], [b"X"])


def _make_idle(card: Card, name: str, memory_total: int, machine: str) -> None:
    number = card.index
    card.uuid = f"GPU-{0xFA110000 + number:08x}-0000-4000-8000-{machine}{number:04x}"
    card.name = name
    card.minor = number
    card.memory_total = memory_total
    card.memory_reserved = 600 * 2**20
    card.memory_used = 4 * 2**20
    card.power_mw = 83_000
    card.power_limit_mw = 700_000
    card.temperature_c = 30
    card.clocks_mhz = (345, 345, 2619, 765)
    card.throttle_reasons = 1  # idle
    card.compute_capability = (9, 0)
    card.mig_capable = True
    card.gpm = dict.fromkeys(USUAL_METRICS, 0.0)
