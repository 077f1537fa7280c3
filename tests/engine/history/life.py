"""A life for some cards, tick by tick: jobs come and go, work, pause, hang and vanish, as people's jobs do."""

import pathlib
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from fallow.core.activity import Activity, Finding
from fallow.core.gpu import Holder
from fallow.core.gpu_status import GpuStatus, Status, seen
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.history.reader import HistoryReader, open_history
from fallow.engine.history.sqlite_file import BUSY_S, OwnFile
from fallow.engine.history.store import FILE_NAME, SCHEMA, LastWritten, Store
from fallow.engine.history.writer import KEEP_DAYS, HistoryWriter
from tests.core.gpus import GIB, held, idle
from tests.places import LIMIT_S
from tests.reasons import said

START_S = 1_790_000_100.0  # a quarter of an hour begins here
USERS = ("ada", "bob", "carol", "dan", "erin")
COMMANDS = ("python train.py --config base.yaml", "jupyter-lab", "python eval.py", "vllm serve", "torchrun ddp.py")
KINDS = (Activity.BUSY, Activity.IDLE, Activity.STUCK, Activity.UNKNOWN)


def gpu_status(
    index: int, activity: Activity, *holders: Holder, load: float = 0.0, power_w: float = 120.0
) -> GpuStatus:
    """A card that was judged."""
    gpu = held(index, holders=holders) if holders else idle(index)
    return seen(
        replace(gpu, utilization=load, power_w=power_w), Finding(activity, said("as the test says")), None, None
    )


def holder(
    pid: int = 100, user: str | Unknown = "ada", command: str | Unknown = "python train.py", **more: Any
) -> Holder:
    """A process on a card."""
    return Holder(pid, 2 * GIB, utilization=0.0, user=user, command=command, **more)


def status(at_s: float, *gpus: GpuStatus) -> Status:
    """One tick."""
    return Status("box", False, at_s, gpus)


class _Card:
    """One card: who holds it, until when, and what they do."""

    def __init__(self, index: int, chance: random.Random) -> None:
        self.index = index
        self.gpu = gpu_status(index, Activity.FREE)
        self._chance = chance
        self._until_s = self._job_until_s = 0.0
        self._holder: Holder | None = None
        self._pid = 1000 * (index + 1)

    def changes(self, second: int) -> bool:
        """Whether it does something else from this second on."""
        if second < self._until_s:
            return False
        chance = self._chance
        if second >= self._job_until_s and self._holder is not None:
            self._holder = None
            self._job_until_s = self._until_s = second + chance.expovariate(1 / 2400)
            self.gpu = gpu_status(self.index, Activity.FREE, power_w=80.0)
            return True
        if self._holder is None:
            self._pid += 1
            command = f"{chance.choice(COMMANDS)} --seed {chance.randrange(200)}"
            self._holder = holder(self._pid, chance.choice(USERS), command)
            self._job_until_s = second + chance.choice((300, 1800, 7200, 43200)) * chance.uniform(0.5, 2)
        activity = chance.choices(KINDS, (60, 35, 3, 2))[0]
        works = activity is Activity.BUSY
        load, power_w = (chance.uniform(0.3, 1.0), chance.uniform(300, 700)) if works else (0.0, 120.0)
        self._until_s = min(self._job_until_s, second + chance.expovariate(1 / 900))
        self.gpu = gpu_status(self.index, activity, self._holder, load=load, power_w=power_w)
        return True


def life(days: float, cards: int = 8, restless: int = 0, seed: int = 1, start_s: float = START_S) -> Iterator[Status]:
    """One sight a second. The last `restless` cards do something else at every tick, for another process a minute."""
    chance = random.Random(seed)
    calm = [_Card(index, chance) for index in range(cards - restless)]
    gpus: tuple[GpuStatus, ...] = ()
    wild: tuple[tuple[GpuStatus, ...], ...] = ((), ())
    for second in range(round(days * 86400)):
        changed = [card.changes(second) for card in calm]
        if restless and second % 60 == 0:
            process = holder(100_000 + second // 60)
            indices = range(len(calm), cards)
            wild = tuple(tuple(gpu_status(index, kind, process) for index in indices) for kind in KINDS[:2])
        if any(changed) or restless or not gpus:
            gpus = (*(card.gpu for card in calm), *wild[second % 2])
        yield Status("box", False, start_s + second, gpus)


def record(folder: pathlib.Path, statuses: Iterable[Status], keep_days: float = KEEP_DAYS) -> None:
    """Have history written by one who lives as long as this lasts, to the orderly end."""
    told: list[str] = []
    history = HistoryWriter(str(folder), told.append, keep_days=keep_days)
    for number, one in enumerate(statuses):
        history.record(one)
        if number % 1000 == 0:  # time passes faster here than a disk can follow
            assert history.settle(LIMIT_S)
    assert history.settle(LIMIT_S)
    history.close()
    assert told == []


def past(folder: pathlib.Path) -> HistoryReader:
    """The history that was written there."""
    opened = open_history(str(folder))
    assert opened is not None
    return opened


@contextmanager
def opened_store(folder: pathlib.Path, last: LastWritten | None = None) -> Iterator[Store]:
    """The file of history in a folder, to be written."""
    file = OwnFile(FILE_NAME, lambda: str(folder), SCHEMA, BUSY_S)
    yield Store(file.database(), {} if last is None else last)
    file.close()
