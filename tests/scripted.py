"""The parts of a Machine: processes, GPUs and a world that show what a test says, and actions that are recorded."""

import os
import pathlib
import shutil
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future

from fallow.actuators.host.power import PowerAction
from fallow.core.actions import PowerOff
from fallow.core.fillers import Presence
from fallow.core.findings import Outcome
from fallow.core.gpu import Gpu, Holder, Memory, Recent, Snapshot
from fallow.core.ports import Clock, Depth, Links
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.fill.filler import DryRunFiller, FillerSpec
from fallow.engine.jobs.executor import outcome_of
from fallow.engine.machine.world import World
from fallow.readers.proc import Proc
from fallow.readers.terminals import Terminals
from tests.places import ME

GIB = 2**30
_EMPTY_BYTES = 4 * 2**20
Record = Callable[[str], None]


class ScriptedProc(Proc):
    """A /proc with the processes of a test, and their pidfds. Nothing of the real one is in it."""

    def __init__(self, root: pathlib.Path, record: Record) -> None:
        super().__init__(str(root))
        self.pidfds = self
        self._folder = root
        self._record = record
        self._users: dict[int, str] = {}
        self._ends: dict[int, int] = {}
        self._opened: dict[int, int] = {}
        self._ignored: dict[int, frozenset[int]] = {}
        self.start(1, user="root", command="/sbin/init", parent=0)

    def start(
        self,
        pid: int,
        *,
        user: str = ME,
        command: str = "python train.py",
        parent: int = 1,
        session: int | None = None,
        ignores: Sequence[int] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Start a process. It ends by any signal but those that it `ignores`; SIGKILL may be one of them."""
        folder = self._folder / str(pid)
        folder.mkdir(parents=True)
        words = command.split()
        session = pid if session is None else session
        birth = 1000 + len(self._ends)
        facts = ("S", parent, session, session, 0, 0, 0, *(0,) * 4, *(0,) * 4, 20, 0, 1, 0, birth, 0, 0)
        (folder / "stat").write_text(f"{pid} ({words[0]}) {' '.join(map(str, facts))}\n")
        (folder / "cmdline").write_text("\0".join(words) + "\0")
        (folder / "comm").write_text(words[0].rpartition("/")[2][:15] + "\n")
        caught = sum(1 << (number - 1) for number in ignores)
        uid = os.geteuid() if user == ME else 61001
        status = f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nSigIgn:\t{0:016x}\nSigCgt:\t{caught:016x}\n"
        (folder / "status").write_text(status)
        (folder / "cgroup").write_text("0::/\n")
        (folder / "environ").write_text("".join(f"{name}={text}\0" for name, text in (environ or {}).items()))
        (folder / "task" / str(pid)).mkdir(parents=True)
        self._users[pid] = user
        self._ignored[pid] = frozenset(ignores)
        self._ends[pid] = os.eventfd(0)

    def end(self, pid: int) -> None:
        """Let a process end, whatever it ignores."""
        os.eventfd_write(self._ends[pid], 1)
        shutil.rmtree(self._folder / str(pid))

    def close(self) -> None:
        for fd in self._ends.values():
            os.close(fd)

    def user(self, pid: int) -> str | Unknown:
        return super().user(pid) if self.stat(pid) is None else self._users[pid]

    def has_ended(self, pid: int, birth: int) -> bool:
        stat = self.stat(pid)
        return stat is None or stat.birth != birth

    def lineage(self, pid: int) -> tuple[int, ...]:
        return () if self.stat(pid) is None else (pid, *self.ancestors(pid))

    def open(self, pid: int) -> int:
        if pid not in self._ends:
            raise ProcessLookupError
        fd = os.dup(self._ends[pid])
        self._opened[fd] = pid
        return fd

    def send(self, fd: int, number: int) -> None:
        pid = self._opened[fd]
        if self.stat(pid) is None:
            raise ProcessLookupError
        if number:
            self._record(f"{signal.Signals(number).name} to {pid}")
            if number not in (*self._ignored[pid], signal.SIGCONT):
                self.end(pid)


class ProcOnTheHost(Proc):
    """The real /proc, as if its pids were the driver's in whatever namespace the tests run."""

    def in_pid_namespace_of_its_own(self) -> bool:
        return False


class ScriptedGpu:
    """One GPU that shows what the test says."""

    def __init__(self, index: int, proc: Proc) -> None:
        self._proc = proc
        self._loads: dict[int, tuple[float, int]] = {}
        self._shown = Gpu(
            index=index,
            uuid=f"GPU-{index:08x}-0000-4000-8000-000000000000",
            name="NVIDIA H100 80GB HBM3",
            utilization=0.0,
            memory_utilization=0.0,
            memory=None,  # type: ignore[arg-type]  see `now`
            holders=(),
            temperature_c=30,
        )
        self._unlike: dict[str, object] = {}
        self.is_there = True

    @property
    def uuid(self) -> str:
        return str(self._shown.uuid)

    def held_by(self, pid: int, *, load: float = 0.0, memory: int = 2 * GIB, **how: object) -> None:
        """Let a process hold the GPU, with this load from now on. It is started as `how` says, if it is not there."""
        if self._proc.stat(pid) is None:
            assert isinstance(self._proc, ScriptedProc), f"there is no process {pid}"
            self._proc.start(pid, **how)  # type: ignore[arg-type]
        self._loads[pid] = (load, memory)

    def left_by(self, pid: int) -> None:
        """Let a process give the GPU back, and live on."""
        del self._loads[pid]

    def unknown(self, why: str) -> None:
        """Let nothing be known of what it does and who holds it."""
        names = ("utilization", "memory_utilization", "memory", "holders", "recent")
        self.shows(**dict.fromkeys(names, Unknown(why)))

    def lost(self) -> None:
        """Let it fall off the bus: its identity is known, and nothing else."""
        self.unknown("the GPU is lost")
        self.shows(trouble="the GPU is lost")

    def shows(self, **readings: object) -> None:
        """Let it show these readings, whatever else is true."""
        self._unlike.update(readings)

    def well(self) -> None:
        """End what `unknown`, `lost` and `shows` began."""
        self._unlike.clear()

    def now(self) -> Gpu:
        """Return what a reader sees of it."""
        self._loads = {pid: held for pid, held in self._loads.items() if self._proc.stat(pid) is not None}
        holders = tuple(Holder(pid, memory, utilization=load) for pid, (load, memory) in self._loads.items())
        used = sum(memory for _, memory in self._loads.values()) or _EMPTY_BYTES
        load = max((load for load, _ in self._loads.values()), default=0.0)
        true = {
            "utilization": load,
            "memory": Memory(80 * GIB, used, 80 * GIB - used, 64 * 2**20),
            "holders": holders,
            "recent": Recent(14.0, load, load),
        }
        return replace(self._shown, **{**true, **self._unlike})


class ScriptedReader:
    """Reads what a script says for each moment, in seconds after its start."""

    is_free = True

    def __init__(self, clock: Clock, script: Callable[[float], Iterable[Gpu]], proc: Proc | None = None) -> None:
        self._clock = clock
        self._began_s = clock.monotonic_s()
        self._script = script
        self._proc = proc

    def look(self, _: Depth) -> Snapshot:
        at_s, wall_s = self._clock.monotonic_s(), self._clock.wall_s()
        gpus = tuple(self._script(at_s - self._began_s))
        return Snapshot("scripted", simulated=False, at_s=at_s, wall_s=wall_s, gpus=gpus)

    def links(self, _: Sequence[Gpu]) -> Links:
        return {}

    def describe(self, snapshot: Snapshot) -> Snapshot:
        return snapshot if self._proc is None else replace(snapshot, gpus=self._proc.describe_all(snapshot.gpus))

    def close(self) -> None:
        return


class RecordedFiller(DryRunFiller):
    """A filler without a process; it leaves when it is asked, unless the test lets it stay."""

    def __init__(self, record: Record, words: str) -> None:
        super().__init__()
        self._record = record
        self.words = words
        self.stays = False
        self.before_ask: Callable[[], None] = lambda: None

    def ask(self) -> None:
        self.before_ask()
        self._record(f"ask {self.words}")
        if not self.stays:
            self.presence = Presence.ABSENT

    def kill(self) -> None:
        self._record(f"kill {self.words}")
        self.presence = Presence.ABSENT

    kill_with_keeper = kill

    def die(self) -> None:
        """End by itself."""
        self.presence = Presence.ABSENT
        self.ended = "ended with exit code 1"


class RecordedActions:
    """Power, commands, notices and fillers of a machine: each is written down, and nothing else happens."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self.outcomes: dict[str, list[Outcome | Exception | None]] = {}
        """What comes next of an action, by its words: an outcome, an error, or None if it never ends."""
        self._hangs = False
        self.hanging: list[Future[Outcome]] = []
        """The actions that have not ended; a test may end them."""
        self.fillers: list[RecordedFiller] = []

    def can(self, _: PowerAction) -> None:
        return None

    def do(self, action: PowerAction, reason: str) -> Outcome:
        return self._done("shutdown" if isinstance(action, PowerOff) else "reboot", reason)

    def announce(self, text: str) -> Outcome:
        return self._done(f"announce: {text}", "announced")

    def run_command(self, line: str, *_: object) -> Outcome:
        return self._done(f"run: {line}", "ended well")

    def notify(self, url: str, *_: object) -> Outcome:
        return self._done(f"notify: {url}", "sent")

    def start(self, spec: FillerSpec, gpus: tuple[Gpu, ...]) -> RecordedFiller:
        words = f"{spec.name} on GPU {', '.join(gpu.label for gpu in gpus)}"
        self._record(f"start {words}")
        self.fillers.append(RecordedFiller(self._record, words))
        return self.fillers[-1]

    def _done(self, words: str, usual: str) -> Outcome:
        self._record(words)
        scripted = self.outcomes.get(words)
        following = scripted.pop(0) if scripted else Outcome(True, usual)
        self._hangs = following is None
        if isinstance(following, Exception):
            raise following
        return following or Outcome(False, "never")

    def submit(self, work: Callable[[], Outcome]) -> Future[Outcome]:
        """Do it at once; what never ends has a future that is never done."""
        future: Future[Outcome] = Future()
        outcome = outcome_of(work)
        if self._hangs:
            self.hanging.append(future)
        else:
            future.set_result(outcome)
        return future


class ScriptedWorld(World):
    """A world of scripted GPUs and processes, in folders of its own, where nobody is at a terminal."""

    def __init__(self, folder: pathlib.Path, clock: Clock, proc: Proc, gpus: Sequence[ScriptedGpu]) -> None:
        places = {"CLAIM_DIR": "claims", "STATE_DIR": "state", "DEVICES": "dev", "SOCKET": "fallow.sock"}
        environ = {f"FALLOW_{name}": str(folder / place) for name, place in places.items()}
        super().__init__({"PATH": os.environ["PATH"], **environ}, clock=clock)
        self._sessions, self._devices = folder / "sessions", folder / "dev"
        for each in (self._sessions, self._devices, self._devices / "pts"):
            each.mkdir()
        self.proc = proc
        self.gpu_reader = ScriptedReader(clock, lambda _: (gpu.now() for gpu in gpus if gpu.is_there), proc)

    def terminals(self) -> Terminals:
        return Terminals(self.clock, str(self._sessions), str(self._devices))
