"""A filler: how a person described it, how it starts, the orders to its keeper, and what the keeper reports."""

import errno
import json
import os
import select
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from fallow.actuators.process import signals, spawn
from fallow.actuators.process.tree import JobTree
from fallow.core.account import without_gpus
from fallow.core.errors import CannotRun, FallowError
from fallow.core.fillers import LARGEST_ORDER, Presence, Yield
from fallow.core.gpu import Gpu
from fallow.core.process import Process, ProcessTable
from fallow.core.value import value
from fallow.engine.fill.log_file import open_log
from fallow.engine.history.run import Run
from fallow.engine.machine.presence import PresenceRules
from fallow.engine.machine.world import World
from fallow.engine.machine.yielding_gpus import KEEPER
from fallow.policies.fill import FillRules
from fallow.readers.accounts import run_as
from fallow.readers.file_trust import doubt_of_program

_LARGEST_REPORT = 65536
_ENDS_WITHIN_S = 0.1  # a keeper that has reported its end


@value
class FillerSpec:
    """A filler as a person described it: its command, its rules and its surroundings."""

    command: tuple[str, ...]
    rules: FillRules = FillRules()
    presence_rules: PresenceRules = PresenceRules()
    name: str = "filler"
    eager: bool = False
    ignore: tuple[str, ...] = ()
    log: str | None = None
    cwd: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    """Environment variables in addition to those of fallow."""
    user: str | None = None
    """The user it runs as, where a config names one; None: the user who runs fallow."""

    @property
    def process(self) -> tuple[object, ...]:
        """Return what cannot change while it runs. All else are rules, which can."""
        suspends = self.rules.manner is Yield.SUSPEND
        return self.name, self.command, self.log, self.cwd, self.env, self.user, suspends


class Filler:
    """One filler and its keeper, from the start until both are gone."""

    def __init__(
        self,
        keeper: Sequence[str],
        environ: Mapping[str, str],
        first: Mapping[str, object],
        table: ProcessTable,
        monotonic_s: Callable[[], float],
    ) -> None:
        """`keeper` is its command, run in `environ`; `first` is its first order, which describes the filler."""
        self.presence = Presence.RUNNING
        self.pid: int | None = None
        self.ended: str | None = None
        """How the filler ended, in words."""
        self.notes: list[str] = []
        if len(json.dumps(first)) > LARGEST_ORDER:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
        self._line, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            self.keeper = spawn.start(keeper[0], keeper, environ, {0: nothing, 3: its.fileno()}, session=True)
        except FallowError:
            self._line.close()
            raise
        finally:
            its.close()
            os.close(nothing)
        self._line.setblocking(False)
        self._table = table
        stat = table.stat(self.keeper)
        self._process = Process(self.keeper, 0 if stat is None else stat.birth)
        self._monotonic_s = monotonic_s
        self._order(**first)

    @property
    def fd(self) -> int:
        """Return the descriptor that becomes readable when the keeper has reported something."""
        return self._line.fileno()

    def ask(self) -> None:
        """Ask all its processes to leave."""
        self._order(do="ask")

    def kill(self) -> None:
        """Kill all its processes."""
        self._order(do="kill")

    def suspend(self, within_s: float, held_bytes: int) -> None:
        """Suspend the filler, which holds so much GPU memory; it is killed if that takes longer than `within_s`."""
        self._order(do="suspend", within_s=within_s, held_bytes=held_bytes)

    def resume(self, within_s: float) -> None:
        """Resume it. From now on it counts as on its GPUs."""
        self.presence = Presence.RUNNING
        self._order(do="resume", within_s=within_s)

    def kill_with_keeper(self) -> None:
        """Kill the keeper and all below it, and wait for nothing.

        If the keeper is gone already, the kernel has killed the filler's first process, and no other is found.
        """
        JobTree(self._table, self._process, self._monotonic_s).kill(0.0)
        self.presence = Presence.ABSENT
        self.ended = "was killed together with its keeper"

    def listen(self) -> None:
        """Read what the keeper has reported."""
        while self.presence is not Presence.ABSENT:
            try:
                said = self._line.recv(_LARGEST_REPORT)
            except BlockingIOError:
                return
            except OSError:
                said = b""
            if said:
                self._take_in(json.loads(said))
            else:
                self.kill_with_keeper()

    def wait(self, timeout_s: float) -> None:
        """Wait until the keeper reports something or the time is over, and read it."""
        listening = select.poll()  # select(2) cannot take descriptors beyond 1023, and a daemon may have thousands
        listening.register(self.fd, select.POLLIN)
        listening.poll(max(0.0, timeout_s) * 1000)
        self.listen()

    def close(self) -> None:
        """Close the connection: the filler has ended, or stays suspended."""
        handle = signals.Handle.open(self._table, self._process, ()) if self.presence is Presence.ABSENT else None
        if handle is not None:
            with handle:
                handle.wait(_ENDS_WITHIN_S)
        with suppress(ChildProcessError):
            os.waitpid(self.keeper, os.WNOHANG)
        self._line.close()

    def _take_in(self, report: Mapping[str, Any]) -> None:
        match report["now"]:
            case "running":
                self.presence = Presence.RUNNING
                self.pid = int(report["pid"])
            case "suspended":
                self.presence = Presence.SUSPENDED
            case "ended":
                self.presence = Presence.ABSENT
                self.ended = report["how"]
                self.notes.extend(report["survivors"])
            case _:  # it was killed for a reason, or there is something to report
                self.notes.append(report["why"])

    def _order(self, **what: object) -> None:
        with suppress(OSError):  # a keeper that has ended is noticed when its reports are read
            self._line.send(json.dumps(what).encode())


class DryRunFiller:
    """A filler of a dry run: it has a state, but no process."""

    keeper = None
    fd = None

    def __init__(self) -> None:
        self.presence = Presence.RUNNING
        self.pid: int | None = None
        self.ended: str | None = None
        self.notes: list[str] = []

    def ask(self) -> None:
        """Become absent."""
        self.presence = Presence.ABSENT

    kill = kill_with_keeper = ask

    def suspend(self, within_s: float, held_bytes: int) -> None:  # noqa: ARG002  as a real one has it
        """Become suspended."""
        self.presence = Presence.SUSPENDED

    def resume(self, within_s: float) -> None:  # noqa: ARG002  as a real one has it
        """Become running."""
        self.presence = Presence.RUNNING

    def wait(self, timeout_s: float = 0.0) -> None:
        """Do nothing: there are no reports, and nothing is open."""

    listen = close = wait


FillerLike = Filler | DryRunFiller
Start = Callable[[FillerSpec, tuple[Gpu, ...]], FillerLike]
"""Starts a filler on these GPUs; raises FallowError if not even its keeper can be started."""


def filler_starter(run: Run) -> Start:
    """Return what starts real fillers, or in a dry run what starts no process."""
    return (lambda _spec, _gpus: DryRunFiller()) if run.dry_run else partial(start_filler, run.world)


def start_filler(world: World, spec: FillerSpec, gpus: Sequence[Gpu]) -> Filler:
    """Start a filler with a keeper process."""
    command = [substitute(word, gpus) for word in spec.command]
    run_as_user = run_as(spec.user, world.environ)
    account = None if run_as_user is None else run_as_user.account
    for_root = run_as_user is not None and account is None
    if for_root:
        found = doubt_of_program(command, spec.cwd, {**world.environ, **dict(spec.env)})
        if found is not None:
            raise CannotRun(f"{found.sentence} ({found.suggestion})")
    first_order = {
        "gives": {**dict(spec.env), **_gpu_environ(world, gpus)},
        "environ": None if run_as_user is None or account is None else run_as_user.environ,
        "account": None if account is None else account.name,
        "for_root": for_root,
        "log": None if spec.log is None else substitute(spec.log, gpus),
        "cwd": "/" if spec.cwd is None and run_as_user is not None else spec.cwd,
        "suspends": spec.rules.manner is Yield.SUSPEND,
    }
    keeper = (sys.executable, "-P", "-m", KEEPER, *command)
    try:
        return Filler(keeper, without_gpus(world.environ), first_order, world.proc, world.clock.monotonic_s)
    except OSError as error:
        raise FallowError(f"no filler can be started: {error.strerror}") from None


def check_command(spec: FillerSpec, environ: Mapping[str, str]) -> None:
    """Raise FallowError if the command cannot be run: at the start, not when a GPU is idle."""
    program = spec.command[0]
    if "{" in program:
        return  # it depends on the GPU
    if spec.cwd is not None and not os.path.isdir(spec.cwd):
        raise CannotRun(f"{spec.cwd} is not a folder to run in")
    if os.sep in program and spec.cwd is not None:
        program = os.path.join(spec.cwd, program)
    spawn.find((program,), environ)


def check_log(spec: FillerSpec, gpus: Sequence[Gpu]) -> None:
    """Raise FallowError if the log cannot be written: at the start, not when a GPU is idle."""
    if spec.log is not None:
        os.close(open_log(substitute(spec.log, gpus)))


def substitute(word: str, gpus: Sequence[Gpu]) -> str:
    """Return a word of the command with {gpu} and {uuid} replaced."""
    labels, uuids = (",".join(parts) for parts in zip(*((gpu.label, str(gpu.uuid)) for gpu in gpus), strict=True))
    return word.replace("{gpu}", labels).replace("{uuid}", uuids)


def _gpu_environ(world: World, gpus: Sequence[Gpu]) -> dict[str, str]:
    """Return the environment variables that give the filler its GPUs."""
    own = {
        "CUDA_VISIBLE_DEVICES": ",".join(str(gpu.uuid) for gpu in gpus),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    if world.simulated is None:
        return own
    simulation = ("FALLOW_SIMULATE", "FALLOW_CLAIM_DIR")
    return own | {name: world.environ[name] for name in simulation if name in world.environ}
