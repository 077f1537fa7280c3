"""Rules and guards do what they say when a part of it fails: with real programs, addresses and signals."""

import pathlib
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest

from fallow.actuators.host.hooks import SystemHooks
from fallow.actuators.host.power import SystemPower
from fallow.core.actions import HostAction, PowerOff, Reboot, RunCommand, SendSignal
from fallow.core.gpu import Gpu
from fallow.engine.guard.attached import Attached
from fallow.engine.guard.guard import GuardLoop
from fallow.engine.history.counters import Tally
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.jobs.executor import Inline
from fallow.engine.jobs.perform import HostActuators
from fallow.engine.machine.world import World
from fallow.policies.guard import GuardRules
from tests.conftest import Fallow
from tests.core.gpus import idle
from tests.engine.guard.test_guard import ScriptedReader, TimeIsUp, works_then_rests
from tests.harness import ManualClock
from tests.places import LIMIT_S

NOBODY_LISTENS = "http://127.0.0.1:1/"


class Guarded:
    """A machine in driven time with real hands; its systemctl is a stand-in that fails at what it is told to."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.log = folder / "log"
        self.log.touch()
        (folder / "bin").mkdir()
        systemctl = folder / "bin" / "systemctl"
        systemctl.write_text(f'#!/bin/sh\n[ -e {folder}/no-$1 ] && exit 4\necho "$1" >> {self.log}\n')
        systemctl.chmod(0o755)
        self.environ = {**Fallow(folder).environ, "PATH": f"{folder / 'bin'}:/usr/bin:/bin"}
        self.world = World(self.environ, clock=self.clock)
        self.told: list[str] = []
        self.tally = Tally()
        self.journal = Journal(str(folder / "journal"), self.clock.wall_s, self.told.append)
        self.run = Run(self.world, self.journal, Report(self.told.append, self.tally))

    def guard(
        self, actions: Sequence[HostAction], attached: Attached | None = None, until_s: float = 3000.0
    ) -> GuardLoop:
        """Run it until it has acted, or its time is up."""
        hands = HostActuators(SystemPower(self.environ), SystemHooks(self.environ))
        rules = GuardRules(tuple(actions), arm_for_s=10.0, idle_for_s=60.0, countdown_s=10.0)
        self.world.gpu_reader = ScriptedReader(self.clock, works_then_rests, until_s)
        guard_loop = GuardLoop(self.run, rules, hands, Inline(), attached=attached)
        with suppress(TimeIsUp):
            guard_loop.run(every_s=1.0)
        return guard_loop


@pytest.fixture
def guarded(tmp_path: pathlib.Path) -> Iterator[Guarded]:
    made = Guarded(tmp_path)
    yield made
    made.journal.close()
    made.world.close()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def test_a_signal_goes_out_although_what_came_before_it_failed(
    guarded: Guarded, sleeper: subprocess.Popen[bytes]
) -> None:
    """F3"""
    guarded.guard([RunCommand("exit 3"), SendSignal("INT")], Attached(guarded.world, sleeper.pid))
    assert sleeper.wait(LIMIT_S) == -2


def gone(cards: list[Gpu]) -> list[Gpu]:
    return cards[:7]


def lost(cards: list[Gpu]) -> list[Gpu]:
    return [*cards[:7], idle(7, trouble="the GPU is lost")]


def no_cards(_cards: list[Gpu]) -> list[Gpu]:
    return []


@pytest.mark.parametrize("missing", [gone, lost, no_cards])
@pytest.mark.parametrize("action", [PowerOff(), Reboot(), SendSignal("KILL")])
def test_nothing_is_killed_or_turned_off_on_missing_data(
    guarded: Guarded, sleeper: subprocess.Popen[bytes], action: HostAction, missing: object
) -> None:
    """Danger: every deed of a guard, with every way of not seeing a card."""

    def script(passed_s: float) -> Sequence[Gpu]:
        cards = works_then_rests(passed_s)
        return cards if passed_s < 100.0 else missing(cards)  # type: ignore[operator]

    attached = Attached(guarded.world, sleeper.pid) if isinstance(action, SendSignal) else None
    hands = HostActuators(SystemPower(guarded.environ), SystemHooks(guarded.environ))
    guarded.world.gpu_reader = ScriptedReader(guarded.clock, script, 2000.0)
    rules = GuardRules((action,), arm_for_s=10.0, idle_for_s=60.0, countdown_s=10.0)
    guard_loop = GuardLoop(guarded.run, rules, hands, Inline(), attached=attached, gpus="0-7")
    with pytest.raises(TimeIsUp):
        guard_loop.run(every_s=1.0)
    assert guarded.log.read_text() == ""
    assert sleeper.poll() is None
    paused = [line for line in guarded.told if "paused" in line]
    assert len(paused) == 1, "said once, and not at every tick"
