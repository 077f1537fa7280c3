"""`fallow burn`: one process for each card, watched from here until they have all left.

They hear signals to our group themselves. What reaches us alone is passed on through their lines, and if we die they
find their lines cut. Power, heat and throttling are read here, through the same eyes as everything else.
"""

import json
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from fallow.actuators.process import spawn
from fallow.actuators.process.signals import Handle
from fallow.actuators.process.yield_channel import YieldLine
from fallow.core.errors import CardFailed
from fallow.core.gpu import Gpu
from fallow.core.ports import Depth
from fallow.core.process import Process
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value
from fallow.engine.allocate.usable_gpus import gpus_to_burn
from fallow.engine.burn.worker import SEND_AWAY
from fallow.engine.machine.signal_pipe import LEAVING, SignalPipe
from fallow.engine.machine.world import World
from fallow.workloads.work import Ask, Tally

_LOOK_EVERY_S = 1.0
_BEGINS_WITHIN_S = 60.0  # to start a driver that slept, and to take all memory, lasts seconds
_OVERTIME_S = 3.0  # once its time is over it leaves by itself; later than that, it is asked to
_LEAVES_WITHIN_S = 10.0  # once asked; more than it gives its own last step
_AT_ONCE_S = 1.0  # signals that come together, as SIGTERM and SIGHUP from a service manager, are one question
_AGAIN = "it had not left when it was asked again, and was killed"
_TOO_LATE = f"it did not leave within {_LEAVES_WITHIN_S:.0f} s of being asked to, and was killed"
_KILL = 9
_NEVER_S = float("inf")


@value
class BurnRequest:
    """What a person asked for."""

    ask: Ask
    gpus: str | None
    for_s: float | None


@value
class Seen:
    """What the eyes saw of a card while it was loaded; Unknown if they saw it in no look."""

    power_w: float | Unknown
    """The mean."""
    power_max_w: float | Unknown
    power_limit_w: float | Unknown
    temperature_max_c: int | Unknown
    throttled_by: tuple[str, ...] | Unknown


@value
class Burned:
    """One card, so far or in the end."""

    gpu: Gpu
    tally: Tally
    """What it held at most, and did until now."""
    seconds: float
    """How long it was loaded."""
    seen: Seen
    freed_in_s: float | None = None
    """How long it took to give the memory back."""
    failed: str | None = None
    code: int = 0
    running: bool = True


@value
class Burning:
    """All that were loaded, and whether they are simulated."""

    simulated: bool
    cards: tuple[Burned, ...]


_NOT_SEEN = Unknown("nobody looked while it was loaded")


class _Watched:
    """Collects what is seen of one card."""

    def __init__(self) -> None:
        self._powers: list[float] = []
        self._no_power = _NOT_SEEN
        self._limit: float | Unknown = _NOT_SEEN
        self._hottest: int | Unknown = _NOT_SEEN
        self._reasons: dict[str, None] | Unknown = _NOT_SEEN

    def add(self, gpu: Gpu) -> None:
        if isinstance(gpu.power_w, Unknown):
            self._no_power = gpu.power_w
        else:
            self._powers.append(gpu.power_w)
        self._limit = gpu.power_limit_w
        if isinstance(self._hottest, Unknown):
            self._hottest = gpu.temperature_c
        elif not isinstance(gpu.temperature_c, Unknown):
            self._hottest = max(self._hottest, gpu.temperature_c)
        if isinstance(gpu.throttled_by, Unknown):
            self._reasons = gpu.throttled_by if isinstance(self._reasons, Unknown) else self._reasons
        else:
            before = {} if isinstance(self._reasons, Unknown) else self._reasons
            self._reasons = {**before, **dict.fromkeys(gpu.throttled_by)}

    def seen(self) -> Seen:
        powers, reasons = self._powers, self._reasons
        return Seen(
            power_w=sum(powers) / len(powers) if powers else self._no_power,
            power_max_w=max(powers) if powers else self._no_power,
            power_limit_w=self._limit,
            temperature_max_c=self._hottest,
            throttled_by=reasons if isinstance(reasons, Unknown) else tuple(reasons),
        )


class _Burner:
    """The process on one card, seen from here."""

    def __init__(self, world: World, gpu: Gpu, request: BurnRequest, *, simulated: bool, stays: bool) -> None:
        """`stays`: once it has freed its memory, until we send it away."""
        self.gpu = gpu
        self._stays_until_s = _NEVER_S
        self.watched = _Watched()
        self._table = world.proc
        self._clock = world.clock
        self._said = b""
        self._began = False
        self._killed_because: str | None = None
        self._for_s = _NEVER_S if request.for_s is None else request.for_s
        self._over_at_s = self._clock.monotonic_s() + _BEGINS_WITHIN_S + self._for_s
        self._kill_at_s = _NEVER_S
        self.burned = Burned(gpu, Tally(), 0.0, self.watched.seen())
        self.output, its_output = os.pipe()
        its_line, self._line = os.pipe()
        command = [sys.executable, "-P", "-m", "fallow.engine.burn.worker", _plan(gpu, request, simulated, stays)]
        environ = {**world.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": str(gpu.uuid)}
        # Kept back until it can listen: then it leaves in good order also if it is asked in its first moments.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, LEAVING)
        try:
            self._pid = spawn.start_burner(sys.executable, command, environ, its_output, its_line)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(its_output)
            os.close(its_line)
        stat = world.proc.stat(self._pid)
        self._process = Process(self._pid, stat.birth if stat is not None else 0)

    @property
    def due_s(self) -> float:
        """When it must be seen to next, if it says nothing before."""
        return min(self._over_at_s, self._kill_at_s, self._stays_until_s)

    @property
    def has_freed(self) -> bool:
        """Whether it has given all its memory back."""
        return self.burned.freed_in_s is not None or not self.burned.running

    def stay_until(self, until_s: float) -> None:
        """Let it stay so long without its memory."""
        self._stays_until_s = until_s

    def see_to(self, now_s: float) -> None:
        """Ask it if its time is over and it goes on; kill it if it was asked and stays."""
        if now_s >= self._stays_until_s:
            self._stays_until_s = _NEVER_S
            self._say(SEND_AWAY)
        if now_s >= self._kill_at_s:
            self.kill(_TOO_LATE)
        elif now_s >= self._over_at_s:
            self.ask_to_leave()

    def ask_to_leave(self) -> None:
        """Once its time is over, and for those whom no signal reached."""
        self._over_at_s = _NEVER_S
        self._kill_at_s = self._clock.monotonic_s() + _LEAVES_WITHIN_S
        self._say(b".")

    def _say(self, byte: bytes) -> None:
        with suppress(BrokenPipeError):  # it is leaving
            os.write(self._line, byte)

    def kill(self, because: str) -> None:
        """For one that does not leave."""
        self._over_at_s = self._kill_at_s = _NEVER_S
        self._killed_because = because
        with_it = Handle.open(self._table, self._process, ())
        if with_it is not None:
            with with_it:
                with_it.send(_KILL)

    def hear(self) -> None:
        """Take in what it has said; when it has closed its output, how it ended."""
        said = os.read(self.output, 65536)
        *lines, self._said = (self._said + said).split(b"\n")
        for line in lines:
            self._understand(json.loads(line))
        if not said:
            self._end()

    def look_at(self, gpu: Gpu) -> None:
        """What the eyes see of its card."""
        if self.burned.running and self._began:
            self.watched.add(gpu)
            self.burned = replace(self.burned, seen=self.watched.seen())

    def _understand(self, told: dict[str, Any]) -> None:
        before = self.burned.tally
        most = {name: max(getattr(before, name), told.pop(name)) for name in ("held_bytes", "chunks")}
        names = ("wanted_bytes", "flop", "moved_bytes", "checked_bytes", "wrong_words")
        if most["held_bytes"] and not self._began:
            self._began = True
            if self._over_at_s != _NEVER_S:  # its time is limited, and it was not asked already
                self._over_at_s = self._clock.monotonic_s() + self._for_s + _OVERTIME_S
        self.burned = replace(self.burned, tally=Tally(**most, **{name: told.pop(name) for name in names}), **told)

    def _end(self) -> None:
        os.close(self.output)
        os.close(self._line)
        code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        burned = replace(self.burned, running=False)
        if code < 0:
            died = self._killed_because or f"the process on it died of signal {-code}"
            burned = replace(burned, failed=died, code=CardFailed.exit_code)
        elif code > 0 and burned.code == 0 and not burned.tally.wrong_words:
            burned = replace(burned, failed=f"the process on it ended with exit code {code}", code=code)
        self.burned = burned


def _plan(gpu: Gpu, request: BurnRequest, simulated: bool, stays: bool) -> str:
    """What the process is told on its command line."""
    free = 0 if isinstance(gpu.memory, Unknown) else gpu.memory.free_bytes
    ask = request.ask
    return json.dumps(
        {
            "load": ask.load.value,
            "verify": ask.verify,
            "memory_share": ask.memory_share,
            "memory_bytes": ask.memory_bytes,
            "chunk_bytes": ask.chunk_bytes,
            "for_s": request.for_s,
            "simulated_bytes": free if simulated else None,
            "stays": stays,
        }
    )


def burn(world: World, request: BurnRequest, show: Callable[[Sequence[Burned]], None]) -> Burning:
    """Load the cards until their time is over or somebody asks us to leave; what came of it, card by card."""
    asked = SignalPipe()
    snapshot = world.gpu_reader.look(Depth.GLANCE)
    cards = gpus_to_burn(world, snapshot.gpus, request.gpus)
    line = YieldLine.of(world.environ)
    simulated, stays = snapshot.simulated, line is not None
    burners = [_Burner(world, gpu, request, simulated=simulated, stays=stays) for gpu in cards]
    _Watch(world, burners, asked, show, line).until_all_have_left()
    return Burning(snapshot.simulated, tuple(burner.burned for burner in burners))


class _Watch:
    """Listens to all of them, looks at their cards, and passes on what we are asked."""

    def __init__(
        self,
        world: World,
        burners: Sequence[_Burner],
        asked: SignalPipe,
        show: Callable[[Sequence[Burned]], None],
        line: YieldLine | None,
    ) -> None:
        self._world = world
        self._burners = burners
        self._asked = asked
        self._show = show
        self._line = line
        self._told_freed = False
        self._stay_until_s: float | None = None
        self._asked_s: float | None = None

    def until_all_have_left(self) -> None:
        """Until each has ended, in its own way."""
        clock, look_at_s = self._world.clock, 0.0
        while running := self._running():
            if self._asked_s is not None:
                look_at_s = _NEVER_S  # once asked, we keep out of the newcomer's way
            elif clock.monotonic_s() >= look_at_s:
                self._look()
                look_at_s = clock.monotonic_s() + _LOOK_EVERY_S
            for burner in running:
                burner.see_to(clock.monotonic_s())
            due_s = min(look_at_s, *(burner.due_s for burner in running))
            outputs = [burner.output for burner in running]
            patience_s = None if due_s == _NEVER_S else max(0.0, due_s - clock.monotonic_s())
            ready = select.select([self._asked.fd, *outputs], [], [], patience_s)[0]
            for burner in running:
                if burner.output in ready:
                    burner.hear()
                    self._show([each.burned for each in self._burners])
                    self._let_stay(burner)
            if self._asked.fd in ready:
                self._leave()

    def _let_stay(self, burner: _Burner) -> None:
        """As long as our keeper allows once it has freed its memory; it is told when all have."""
        if self._line is None or not burner.has_freed:
            return
        if self._stay_until_s is None:
            self._stay_until_s = self._world.clock.monotonic_s() + self._line.may_stay_s()
        burner.stay_until(self._stay_until_s)
        if not self._told_freed and all(each.has_freed for each in self._burners):
            self._told_freed = True
            self._line.tell_freed()

    def _running(self) -> list[_Burner]:
        return [burner for burner in self._burners if burner.burned.running]

    def _look(self) -> None:
        seen = {gpu.label: gpu for gpu in self._world.gpu_reader.look(Depth.LOOK).gpus}
        for burner in self._burners:
            if burner.gpu.label in seen:
                burner.look_at(seen[burner.gpu.label])
        self._show([burner.burned for burner in self._burners])

    def _leave(self) -> None:
        """Asked once, they are asked; asked again, they must."""
        if not self._asked.fetch():
            return
        now_s = self._world.clock.monotonic_s()
        if self._asked_s is None:
            self._asked_s = now_s
            for burner in self._running():
                burner.ask_to_leave()
        elif now_s - self._asked_s >= _AT_ONCE_S:
            for burner in self._running():
                burner.kill(_AGAIN)
