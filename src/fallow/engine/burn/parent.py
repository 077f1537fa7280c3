"""The parent of `fallow burn`: it starts one worker process for each GPU and supervises them until all have ended.

A signal to our process group reaches the workers themselves, and one to us is passed on. When we die, they die.
Power, temperature and throttling are read here, with the usual reader.
"""

import json
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from fallow.actuators.process import spawn
from fallow.actuators.process.signals import Handle
from fallow.core.errors import CardFailed
from fallow.core.fillers import IS_FILLER
from fallow.core.gpu import Gpu
from fallow.core.ports import Depth
from fallow.core.process import Process
from fallow.core.unknown import Unknown
from fallow.core.value import fields, replace, value
from fallow.engine.allocate.usable_gpus import gpus_to_burn
from fallow.engine.burn.worker import LEAVE, LEAVE_AT_ONCE
from fallow.engine.machine.claims_seen import claim_of
from fallow.engine.machine.signal_pipe import LEAVING, SignalPipe
from fallow.engine.machine.world import World
from fallow.workloads.work import Ask, Tally

_LOOK_EVERY_S = 1.0
_BEGINS_WITHIN_S = 60.0  # starting the driver and allocating all memory takes seconds
_LEAVES_WITHIN_S = 10.0  # once asked; longer than a worker waits for its own last step
_TOO_LATE = f"it did not leave within {_LEAVES_WITHIN_S:.0f} s of being asked to, and was killed"
_NEVER_S = float("inf")
_NOT_MEASURED = Unknown("it was not read while it was loaded")


@value
class BurnRequest:
    """What a person asked `fallow burn` for."""

    ask: Ask
    gpus: str | None
    for_s: float | None


@value
class Measured:
    """What was measured on a GPU while it was loaded; Unknown where no look succeeded."""

    power_w: float | Unknown = _NOT_MEASURED
    """The mean."""
    power_max_w: float | Unknown = _NOT_MEASURED
    power_limit_w: float | Unknown = _NOT_MEASURED
    temperature_max_c: int | Unknown = _NOT_MEASURED
    throttled_by: tuple[str, ...] | Unknown = _NOT_MEASURED


@value
class Burned:
    """The result for one GPU, so far or at the end."""

    gpu: Gpu
    tally: Tally = Tally()
    """The most memory that was allocated, and the work done until now."""
    seconds: float = 0.0
    """How long the GPU was loaded."""
    measured: Measured = Measured()
    freed_in_s: float | None = None
    """How long it took to free the memory."""
    failed: str | None = None
    code: int = 0
    running: bool = True


def burn(world: World, request: BurnRequest, show: Callable[[Sequence[Burned]], None]) -> list[Burned]:
    """Load the GPUs until their time is over or a signal asks us to leave; return the results."""
    signals = SignalPipe()
    cards = gpus_to_burn(world, world.gpu_reader.look(Depth.HOLDERS).gpus, request.gpus)
    workers = [_Worker(world, gpu, request) for gpu in cards]
    _supervise(world, workers, signals, show)
    return [worker.burned for worker in workers]


class _Worker:
    """The worker process of one GPU, as its parent has it."""

    def __init__(self, world: World, gpu: Gpu, request: BurnRequest) -> None:
        self.burned = Burned(gpu)
        self._table = world.proc
        self._monotonic_s = world.clock.monotonic_s
        self._powers: list[float] = []
        self._temperatures: list[int] = []
        self._unread = b""
        self._killed_because: str | None = None
        self._for_s = _NEVER_S if request.for_s is None else request.for_s
        self._over_at_s = self._monotonic_s() + _BEGINS_WITHIN_S + self._for_s
        self._kill_at_s = _NEVER_S
        self.output, its_output = os.pipe()
        plan = {
            "ask": {name: getattr(request.ask, name) for name in fields(Ask)},
            "simulated_bytes": None
            if world.simulated is None or isinstance(gpu.memory, Unknown)
            else gpu.memory.free_bytes,
            "stays": IS_FILLER in world.environ,
            "parent": os.getpid(),
        }
        command = [sys.executable, "-P", "-m", "fallow.engine.burn.worker", json.dumps(plan)]
        environ = {**world.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": str(gpu.uuid)}
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            # Blocked until the worker can handle them: then it ends in good order even in its first moments.
            streams = {0: nothing, 1: its_output}
            self._pid = spawn.start(sys.executable, command, environ, streams, blocked=LEAVING)
        finally:
            os.close(nothing)
            os.close(its_output)
        stat = world.proc.stat(self._pid)
        self._process = Process(self._pid, stat.birth if stat is not None else 0)

    @property
    def due_s(self) -> float:
        """Return the next deadline, if it reports nothing before."""
        return min(self._over_at_s, self._kill_at_s)

    def enforce_deadlines(self, now_s: float) -> None:
        """Ask it to leave if its time is over; kill it if it was asked and has not left."""
        if now_s >= self._kill_at_s:
            self._kill_at_s = _NEVER_S
            self._killed_because = _TOO_LATE
            self._send(signal.SIGKILL)
        elif now_s >= self._over_at_s:
            self.ask_to_leave(LEAVE)

    def ask_to_leave(self, number: int) -> None:
        """Ask it to leave by this signal, and set the deadline for that."""
        self._over_at_s = _NEVER_S
        self._kill_at_s = self._monotonic_s() + _LEAVES_WITHIN_S
        self._send(number)

    def read(self) -> None:
        """Read its reports; at the end of its output, read its exit code."""
        received = os.read(self.output, 65536)
        *lines, self._unread = (self._unread + received).split(b"\n")
        for line in lines:
            self._apply_report(json.loads(line))
        if not received:
            self._end()

    def look_at(self, gpu: Gpu) -> None:
        """Add one reading of its GPU, once it is loaded."""
        if not self.burned.running or not self.burned.tally.held_bytes:
            return
        if not isinstance(gpu.power_w, Unknown):
            self._powers.append(gpu.power_w)
        if not isinstance(gpu.temperature_c, Unknown):
            self._temperatures.append(gpu.temperature_c)
        before, reasons = self.burned.measured.throttled_by, gpu.throttled_by
        if not isinstance(before, Unknown):
            reasons = before if isinstance(reasons, Unknown) else tuple(dict.fromkeys((*before, *reasons)))
        measured = Measured(
            sum(self._powers) / len(self._powers) if self._powers else gpu.power_w,
            max(self._powers) if self._powers else gpu.power_w,
            gpu.power_limit_w,
            max(self._temperatures) if self._temperatures else gpu.temperature_c,
            reasons,
        )
        self.burned = replace(self.burned, measured=measured)

    def _send(self, number: int) -> None:
        handle = Handle.open(self._table, self._process, ())
        if handle is not None:
            with handle:
                handle.send(number)

    def _apply_report(self, report: dict[str, Any]) -> None:
        before = self.burned.tally
        tally = {name: report.pop(name) for name in fields(Tally)}
        tally |= {name: max(getattr(before, name), tally[name]) for name in ("held_bytes", "chunks")}
        if tally["held_bytes"] and not before.held_bytes and self._over_at_s != _NEVER_S:
            self._over_at_s = self._monotonic_s() + self._for_s
        self.burned = replace(self.burned, tally=Tally(**tally), **report)

    def _end(self) -> None:
        os.close(self.output)
        code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        burned = replace(self.burned, running=False)
        if code < 0:
            died = self._killed_because or f"the process on it died of signal {-code}"
            burned = replace(burned, failed=died, code=CardFailed.exit_code)
        elif code > 0 and burned.code == 0 and not burned.tally.wrong_words:
            burned = replace(burned, failed=f"the process on it ended with exit code {code}", code=code)
        self.burned = burned


def _supervise(
    world: World, workers: Sequence[_Worker], signals: SignalPipe, show: Callable[[Sequence[Burned]], None]
) -> None:
    """Read the reports of all workers, measure their GPUs and pass signals on, until all have ended."""
    monotonic_s = world.clock.monotonic_s
    next_look_s, is_asked = 0.0, False
    while running := [worker for worker in workers if worker.burned.running]:
        if monotonic_s() >= next_look_s:
            _look(world, running)
            show([worker.burned for worker in workers])
            next_look_s = monotonic_s() + _LOOK_EVERY_S
        for worker in running:
            worker.enforce_deadlines(monotonic_s())
        due_s = min(next_look_s, *(worker.due_s for worker in running))
        timeout_s = None if due_s == _NEVER_S else max(0.0, due_s - monotonic_s())
        ready = select.select([signals.fd, *(worker.output for worker in running)], [], [], timeout_s)[0]
        for worker in running:
            if worker.output in ready:
                worker.read()
                show([each.burned for each in workers])
        if signals.fd in ready and signals.numbers() and not is_asked:
            is_asked = True
            next_look_s = _NEVER_S  # another look would only delay the newcomer
            _ask_to_leave(world, running)


def _look(world: World, workers: Sequence[_Worker]) -> None:
    gpus = {gpu.label: gpu for gpu in world.gpu_reader.look(Depth.ALL).gpus}
    for worker in workers:
        if worker.burned.gpu.label in gpus:
            worker.look_at(gpus[worker.burned.gpu.label])


def _ask_to_leave(world: World, workers: Sequence[_Worker]) -> None:
    claims = [claim_of(world, str(worker.burned.gpu.uuid)) for worker in workers]
    is_awaited = any(claim is not None for claim in claims)  # a launch waits for the end of a filler
    for worker in workers:
        worker.ask_to_leave(LEAVE_AT_ONCE if is_awaited else LEAVE)
