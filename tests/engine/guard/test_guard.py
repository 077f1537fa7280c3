"""A guard in driven time: people at terminals, clocks that are set, and a machine that works, told by a script."""

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

import pytest

from fallow.core.actions import PowerOff
from fallow.core.findings import Outcome
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.ports import Depth, Links
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.engine.conditions.machine import parse_unless, users
from fallow.engine.conditions.rate import Condition
from fallow.engine.guard.guard import GuardLoop
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.jobs.executor import Inline
from fallow.engine.jobs.perform import HostActuators
from fallow.engine.machine.world import World
from fallow.policies.guard import GuardRules
from fallow.readers.proc import Proc
from fallow.readers.terminals import Terminals
from tests.core.gpus import held, idle
from tests.harness import ManualClock

WORK_S = 100.0
EXPECTED_S = WORK_S + 300.0 + 60.0  # quiet, then the countdown; a tick speaks for the second before it
Script = Callable[[float], Sequence[Gpu]]


class TimeIsUp(Exception):
    """The guard has not acted in the time that the test gives it."""


class ScriptedReader:
    """Sees what a script says for each moment."""

    def __init__(self, clock: ManualClock, script: Script, until_s: float) -> None:
        self._clock = clock
        self._began_s = clock.now_s
        self._script = script
        self._until_s = until_s

    def look(self, depth: Depth) -> Snapshot:
        passed_s = self._clock.now_s - self._began_s
        if passed_s > self._until_s:
            raise TimeIsUp
        gpus = tuple(self._script(passed_s))
        return Snapshot("scripted", simulated=False, at_s=self._clock.now_s, wall_s=self._clock.wall_s(), gpus=gpus)

    def links(self, gpus: Sequence[Gpu]) -> Links:
        return {}

    def describe(self, snapshot: Snapshot) -> Snapshot:
        return snapshot

    def close(self) -> None:
        return


class RecordingPower:
    """Remembers when it was told to act."""

    def __init__(self, clock: ManualClock) -> None:
        self.done_at_s: list[float] = []
        self._clock = clock

    def can(self, action: object) -> str | None:
        return None

    def do(self, action: object, reason: str) -> Outcome:
        self.done_at_s.append(self._clock.now_s)
        return Outcome(True, reason)

    def announce(self, text: str) -> Outcome:
        return Outcome(True, text)


class Machine:
    """A guarded machine whose time the test drives."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.clock = ManualClock()
        self.folder = folder
        self.world = World({"FALLOW_CLAIM_DIR": str(folder / "claims")}, clock=self.clock)
        self.power = RecordingPower(self.clock)

    def guard(
        self, script: Script, blockers: Sequence[Condition] = (), until_s: float = 2000.0, gpus: str | None = None
    ) -> float | None:
        """When it acts, in seconds after its start; None if it does not."""
        began_s = self.clock.now_s
        self.world.gpu_reader = ScriptedReader(self.clock, script, until_s)
        hands = HostActuators(self.power, None)  # type: ignore[arg-type]
        rules = GuardRules((PowerOff(),), arm_for_s=10.0, idle_for_s=300.0, countdown_s=60.0)
        journal = Journal(str(self.folder), self.clock.wall_s, lambda _: None)
        guard_loop = GuardLoop(
            Run(self.world, journal, Report(lambda _: None)), rules, hands, Inline(), gpus=gpus, conditions=blockers
        )
        try:
            guard_loop.run(every_s=1.0)
        except TimeIsUp:
            pass
        finally:
            journal.close()
        assert len(self.power.done_at_s) <= 1
        return self.power.done_at_s[0] - began_s if self.power.done_at_s else None


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.world.close()


def works_then_rests(passed_s: float) -> list[Gpu]:
    if passed_s < WORK_S:
        return [held(0, utilization=0.9), *(idle(index) for index in range(1, 8))]
    return [idle(index) for index in range(8)]


def test_it_acts_when_work_has_ended_and_the_time_has_passed(machine: Machine) -> None:
    acted_s = machine.guard(works_then_rests)
    assert acted_s is not None
    assert acted_s == pytest.approx(EXPECTED_S, abs=2.0)


@pytest.mark.parametrize("hour_s", [3600.0, -3600.0])
def test_setting_the_clock_changes_nothing(machine: Machine, hour_s: float) -> None:
    def script(passed_s: float) -> list[Gpu]:
        if passed_s == WORK_S + 150.0:
            machine.clock.wall_offset_s += hour_s
        return works_then_rests(passed_s)

    acted_s = machine.guard(script)
    assert acted_s is not None
    assert acted_s == pytest.approx(EXPECTED_S, abs=2.0)


def test_somebody_at_a_terminal_keeps_the_machine_on_until_they_are_gone(machine: Machine) -> None:
    pts = machine.folder / "pts"
    pts.mkdir()
    (pts / "0").touch()
    terminals = Terminals(machine.clock, str(machine.folder / "none"), str(machine.folder))

    def script(passed_s: float) -> list[Gpu]:
        if passed_s < 5000.0 and passed_s % 60 == 0:
            at = machine.clock.wall_s()
            os.utime(pts / "0", (at, at))  # she types
        return works_then_rests(passed_s)

    acted_s = machine.guard(script, [users(terminals, 300.0)], until_s=20_000.0)
    assert acted_s is not None
    last_touch_s = 4980.0
    expected_s = last_touch_s + 300.0 + 300.0 + 60.0  # she is away, it is quiet, the countdown
    assert acted_s == pytest.approx(expected_s, abs=2.0)


def test_people_that_cannot_be_told_keep_the_machine_on(machine: Machine) -> None:
    terminals = Terminals(machine.clock, "/nowhere/sessions", "/nowhere")
    assert machine.guard(works_then_rests, [users(terminals, 300.0)], until_s=5000.0) is None


def test_a_cpu_at_work_speaks_against_it(machine: Machine) -> None:
    root = machine.folder / "proc"
    root.mkdir(parents=True)
    machine.world.proc = Proc(str(root))
    cpu = parse_unless("cpu:20", machine.world)

    def at(busy: int, total: int) -> Reason | Unknown | None:
        (root / "stat").write_text(f"cpu  {busy} 0 0 {total - busy} 0 0 0 0 0 0\n")
        machine.clock.sleep(1.0)
        return cpu()

    assert isinstance(at(0, 100), Unknown), "one look is nothing to compare with"
    assert at(10, 200) is None
    assert str(at(60, 300)) == "the CPU is at 50%"


def test_a_program_that_runs_speaks_against_it_also_behind_the_options_of_its_interpreter(machine: Machine) -> None:
    script = machine.folder / f"train-{os.getpid()}.py"
    script.write_text("print(flush=True); input()")
    runs = parse_unless(f"process:{script.name}", machine.world)
    assert runs() is None
    words = [sys.executable, "-u", str(script)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as training:
        assert training.stdout is not None
        assert training.stdout.readline() == "\n"
        assert script.name in str(runs())
    assert runs() is None
