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

from tests.standin.card import USUAL_METRICS, Card, text
from tests.standin.layout import SIZES, STRUCTURES

P2P_OK = 0
P2P_NOT_SUPPORTED = 5
TOPOLOGY_SYSTEM = 50

_WORLD = STRUCTURES["world"]


def _base_name(function: str) -> str:
    return re.sub(r"_v\d+$", "", function)


class World:
    """A mapped world file. Create one, or attach to one that another process made."""

    def __init__(self, path: pathlib.Path, file: int) -> None:
        """Map an open world file; use create() or attach()."""
        self.path = path
        self._file = file
        self._memory = mmap.mmap(file, ctypes.sizeof(_WORLD))
        self._raw = _WORLD.from_buffer(self._memory)
        self._lock = threading.Lock()

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
        if not 1 <= cards <= SIZES["MAX_CARDS"]:
            raise ValueError(f"a world has 1 to {SIZES['MAX_CARDS']} cards")
        path = pathlib.Path(path)
        file, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            os.ftruncate(file, ctypes.sizeof(_WORLD))
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
        return cls(pathlib.Path(path), os.open(path, os.O_RDWR | os.O_CLOEXEC))

    def _fill(self, cards: int, name: str, memory_total: int, driver_version: str) -> None:
        raw = self._raw
        raw.cards = cards
        raw.cuda_version = 13000
        raw.driver_version = text(driver_version, 80)
        for row_level, row_status in zip(raw.link_level, raw.link_status, strict=True):
            for i in range(SIZES["MAX_CARDS"]):
                row_level[i] = TOPOLOGY_SYSTEM
                row_status[i] = P2P_NOT_SUPPORTED
        machine = os.urandom(4).hex()  # no two worlds have a card in common, or one test would find another's jobs
        for card in self:
            _make_idle(card, name, memory_total, machine)

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
        return Card(index, self._raw.card[index], self._alone)

    def __iter__(self) -> Iterator[Card]:
        return (self[index] for index in range(len(self)))

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Be the only one, among threads and among processes, that reads or writes."""
        with self._lock:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

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

    def fault(self, function: str, card: int = -1, error: int = 0, delay_s: float = 0.0, never: bool = False) -> int:
        """Put a fault in the way of a call, and return the token to withdraw it by.

        The name goes without version suffix; "*" is every call on that card. Card -1 is any card, and calls that are
        about none.
        """
        with self._alone():
            place = next((entry for entry in self._raw.fault if not entry.token), None)
            if place is None:
                raise RuntimeError("no more faults fit")
            self._raw.next_token += 1
            place.function = text(_base_name(function), SIZES["FUNCTION_SIZE"])
            place.card, place.error = card, error
            place.delay_us, place.never = round(delay_s * 1_000_000), never
            place.token = self._raw.next_token
            return int(place.token)

    def heal(self, token: int | None = None) -> None:
        """Withdraw one fault, or all; whoever waits in it goes on."""
        for entry in self._raw.fault:
            if entry.token and token in (None, entry.token):
                entry.token = 0

    def calls(self, function: str) -> int:
        """How often that function was called, in all its versions, by all processes."""
        place = 2166136261
        for byte in _base_name(function).encode():
            place = ((place ^ byte) * 16777619) & 0xFFFFFFFF
        return int(self._raw.calls[place % SIZES["MAX_COUNTERS"]])

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
