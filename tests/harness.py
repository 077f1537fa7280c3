"""The helpers that start fallow in the test's own process: `cli` for one command, `Machine` for the daemon.

A `Machine` has a clock that the test moves, GPUs that show what the test says, and processes that exist only in a
/proc of its own. What the daemon does reaches nothing else: signals, power, commands and fillers are recorded.
"""

import ctypes
import gc
import os
import pathlib
import signal
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, NamedTuple

from fallow.core.board import Board
from fallow.core.findings import Event
from fallow.core.ports import Clock
from fallow.core.protections import parse_target
from fallow.engine.config.load import load
from fallow.engine.daemon.loop import Daemon
from fallow.engine.daemon.publisher import Publisher
from fallow.engine.fill.filler import Start, filler_starter
from fallow.engine.history.run import Run
from fallow.engine.jobs.perform import HostActuators, host_actuators
from fallow.engine.machine.world import World
from fallow.interfaces.cli.main import main
from fallow.readers.accounts import run_as
from fallow.readers.proc import Proc
from tests.places import NO_DAEMON
from tests.scripted import RecordedActions, ScriptedGpu, ScriptedProc, ScriptedWorld

_USUAL = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **NO_DAEMON}
_PR_SET_CHILD_SUBREAPER = 36


class Done(NamedTuple):
    """What came of a command."""

    code: int
    out: str
    err: str


def cli(*words: str, clock: Clock | None = None, environ: Mapping[str, str] | None = None, stdin: str = "") -> Done:
    """Run a command of fallow in this process, with this environment and no other; return what came of it.

    Not for what becomes another program, as `run` without a timeout does, nor for what a signal ends; and not beside
    threads that open files: what is open at the end and was not before is closed, as the end of a process does.
    """
    with ExitStack() as stack:
        out, err = (stack.enter_context(os.fdopen(os.memfd_create(name), "w+")) for name in ("out", "err"))
        read = stack.enter_context(os.fdopen(os.memfd_create("in"), "w+"))
        read.write(stdin)
        read.seek(0)
        with _process_as_before(), _streams(read, out, err), _variables(_USUAL if environ is None else environ):
            code = _main(words, clock)
        texts = [_all_of(file) for file in (out, err)]
    return Done(code, *texts)


def _main(words: Sequence[str], clock: Clock | None) -> int:
    try:
        return main(list(words), clock)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1


def _all_of(file: IO[str]) -> str:
    file.flush()
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode()


@contextmanager
def _streams(*files: IO[str]) -> Iterator[None]:
    """Let the first three descriptors and Python's streams be these files."""
    names = ("stdin", "stdout", "stderr")
    before = [getattr(sys, name) for name in names]
    for stream in before[1:]:
        stream.flush()
    kept = [os.dup(number) for number in range(3)]
    for number, (name, file) in enumerate(zip(names, files, strict=True)):
        os.dup2(file.fileno(), number)
        setattr(sys, name, file)
    try:
        yield
    finally:
        for number, (name, stream) in enumerate(zip(names, before, strict=True)):
            if getattr(sys, name) is not files[number]:
                getattr(sys, name).close()  # the command gave up on one that nobody reads
            setattr(sys, name, stream)
            os.dup2(kept[number], number)
            os.close(kept[number])


@contextmanager
def _variables(environ: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _process_as_before() -> Iterator[None]:
    """Restore what a command changes of its process, and keep it from becoming another program."""
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    umask = os.umask(0o022)
    os.umask(umask)
    folder, collects, switch_s = os.getcwd(), gc.isenabled(), sys.getswitchinterval()
    opened = _descriptors()
    _OURS.add(os.getpid())
    try:
        yield
    finally:
        _OURS.clear()
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) != handler:
                signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.umask(umask)
        os.chdir(folder)
        sys.setswitchinterval(switch_s)
        if collects:
            gc.unfreeze()
            gc.enable()
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        if _descriptors() - opened:
            gc.collect()  # what belongs to an object is closed by it
        for left in _descriptors() - opened:
            if not stat.S_ISSOCK(os.fstat(left).st_mode):  # which may be of a server that a test runs in a thread
                os.close(left)  # as the end of its process would, such as a claim


def _descriptors() -> set[int]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one that listed them is closed by now
            os.get_inheritable(int(name))
            found.add(int(name))
    return found


_OURS: set[int] = set()
"""This process, while a command runs in it."""


class BecomesAnotherProgram(BaseException):
    """The command would have replaced the tests by another program; start it as a process of its own."""


def _refuse_exec(event: str, _: tuple[object, ...]) -> None:
    if event == "os.exec" and os.getpid() in _OURS:
        raise BecomesAnotherProgram


sys.addaudithook(_refuse_exec)


class ManualClock:
    """Time passes only when somebody sleeps, or when the test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.wall_offset_s = 1.7e9

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_s(self) -> float:
        return self.now_s + self.wall_offset_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Machine:
    """A machine with scripted GPUs, and a daemon on it once it is configured."""

    def __init__(self, folder: pathlib.Path, gpus: int = 2, proc: Proc | None = None) -> None:
        """`proc`: the real one, for a test in which the processes are the point; else they are scripted."""
        self.folder = folder
        self.clock = ManualClock()
        self.done: list[str] = []
        """All that reached the world, in order: signals, power, commands, notices and fillers."""
        self.told: list[str] = []
        self.proc = ScriptedProc(folder / "proc", self.done.append)
        shown = self.proc if proc is None else proc
        self.gpus = [ScriptedGpu(index, shown) for index in range(gpus)]
        self.world = ScriptedWorld(folder, self.clock, shown, self.gpus)
        self.actions = RecordedActions(self.done.append)
        self._file = folder / "fallow.toml"
        self._publisher = Publisher()
        self._daemon: Daemon | None = None
        self._ended = False
        self._began_s = self.clock.now_s

    def configure(self, toml: str, *, dry_run: bool = False) -> None:
        """Start the daemon with this config, looking once; or let the one that runs load it."""
        self._file.write_text(toml if "[machine]" in toml else f"[machine]\nevery = '1s'\n{toml}")
        self._file.chmod(0o600)
        if self._daemon is not None:
            reloaded = self._daemon.reload()
            assert reloaded.ok, (reloaded.sentence, reloaded.mistakes)
            return
        self._daemon = Daemon(
            self.world,
            lambda file: load(str(file)),
            self._publisher,
            self.told.append,
            file=str(self._file),
            dry_run=dry_run,
            starter=self._starter,
            host=self.host,
        )
        self._began_s = self.clock.now_s
        self._daemon.turn()

    @property
    def daemon(self) -> Daemon:
        assert self._daemon is not None, "configure the machine first"
        return self._daemon

    def gpu(self, index: int) -> ScriptedGpu:
        return self.gpus[index]

    def pass_(self, *, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Let time pass, with a look of the daemon whenever one is due."""
        until_s = self.clock.now_s + hours * 3600 + minutes * 60 + seconds
        every_s = self.daemon.config.machine.every
        while self.clock.now_s + every_s <= until_s:
            self.clock.sleep(every_s)
            self.daemon.turn()
        self.clock.sleep(until_s - self.clock.now_s)

    @property
    def board(self) -> Board:
        board = self._publisher.board
        assert board is not None
        return board

    def events(self, key: str | None = None) -> list[Event]:
        """Return what the journal has, oldest first; with a key only what is about it."""
        return self.daemon.journal.last(key, 1000)[::-1]

    def steps(self) -> list[str]:
        """Return each action in the journal with the time since the start, such as `warn at 1:59:00`."""
        return [f"{_words(event)} at {self._when(event.wall_s)}" for event in self.events() if event.kind == "action"]

    def protect(self, target: str, *, hours: float = 1) -> int:
        """Protect `gpu:UUID`, `pid:PID@BIRTH` or `machine`; return the number of the protection."""
        return self.world.protections.place(parse_target(target), self.clock.wall_s() + hours * 3600, "not yet")

    def said(self, words: str) -> bool:
        return any(words in sentence for sentence in self.told)

    def end(self) -> None:
        """End the daemon, as a signal would."""
        if self._daemon is not None and not self._ended:
            self._ended = True
            self._daemon.end()

    def close(self) -> None:
        self.end()
        self.world.close()
        self.proc.close()

    def _starter(self, run: Run) -> Start:
        return filler_starter(run) if run.dry_run else self.actions.start

    def host(self, world: World, *, dry_run: bool, user: str | None = None) -> HostActuators:
        """Return what a guard acts with."""
        if dry_run:
            return host_actuators(world, dry_run=True, user=user)
        run_as(user, world.environ)  # who is not there is refused
        return HostActuators(self.actions, self.actions, self.actions)  # type: ignore[arg-type]

    def _when(self, wall_s: float) -> str:
        passed_s = round(wall_s - self.clock.wall_offset_s - self._began_s)
        return f"{passed_s // 3600}:{passed_s // 60 % 60:02}:{passed_s % 60:02}"


def _words(event: Event) -> str:
    dry = "would " if event.finding.startswith("dry run: ") else ""
    return f"{dry}{event.step}" if event.step else event.finding
