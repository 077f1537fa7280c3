"""A guard of the daemon: it acts once, when work has ended, and never on missing data."""

import os
import pathlib
import shutil
import signal
from collections.abc import Callable, Mapping

import pytest

from fallow.actuators.host.hooks import SystemHooks
from fallow.core.actions import PowerOff, RunCommand, SendSignal
from fallow.core.findings import Outcome
from fallow.core.ports import Depth
from fallow.engine.guard.guard import GuardLoop
from fallow.engine.history.run import open_run
from fallow.engine.jobs.perform import HostActuators
from fallow.policies.guard import GuardRules
from tests.actuators.process.test_programs import becomes_root
from tests.harness import Machine

JOB = 4711
TIMES = "arm_for = '10s'\nidle_for = '60s'\ncountdown = '20s'"
EVENING = f"[[guard]]\nname = 'evening'\n{TIMES}\n"
SHUTDOWN = f"{EVENING}action = 'shutdown'\n"
FAILS = Outcome(False, "no permission")


def guarded(machine: Machine, config: str = SHUTDOWN) -> Machine:
    """Let a job work until the guard is armed, and then rest."""
    machine.configure(config)
    machine.gpu(0).held_by(JOB, load=0.9)
    machine.pass_(seconds=15)
    assert phase(machine) == "armed"
    machine.gpu(0).held_by(JOB, load=0.0)
    return machine


def phase(machine: Machine) -> str:
    (view,) = machine.board.guards
    return view.phase


def acts(machine: Machine) -> list[str]:
    """What was done, without what was announced."""
    return [words for words in machine.done if not words.startswith("announce: ")]


def test_it_announces_and_acts_once_when_work_has_ended_and_the_time_has_passed(machine: Machine) -> None:
    guarded(machine).pass_(seconds=59)
    assert machine.done == []
    machine.pass_(seconds=1)
    because = "the GPUs have been quiet for 1m: about to turn the machine off"
    assert machine.done == [f"announce: {because} in 20s. To prevent it: fallow protect --for 1h"]
    machine.pass_(seconds=19)
    assert acts(machine) == []
    machine.pass_(minutes=10)
    assert acts(machine) == ["shutdown"]
    assert phase(machine) == "acted"
    assert machine.steps() == ["announce: turn the machine off at 0:01:15", "turn the machine off at 0:01:35"]
    (shutdown,) = [event for event in machine.events() if event.finding == "turn the machine off"][:1]
    assert shutdown.because == "the GPUs have been quiet for 1m", "it carries its reason"


@pytest.mark.parametrize("hour_s", [3600.0, -3600.0])
def test_setting_the_clock_changes_nothing(machine: Machine, hour_s: float) -> None:
    guarded(machine).pass_(seconds=30)
    machine.clock.wall_offset_s += hour_s
    machine.pass_(seconds=49)
    assert acts(machine) == []
    machine.pass_(seconds=1)
    assert acts(machine) == ["shutdown"]


def test_work_calls_a_countdown_off_and_everybody_is_told(machine: Machine) -> None:
    guarded(machine).pass_(seconds=70)
    machine.gpu(1).held_by(JOB + 1, load=0.5)
    machine.pass_(seconds=5)
    assert (phase(machine), machine.done[-1]) == ("armed", "announce: called off: the busiest GPU is at 50%")
    machine.gpu(1).left_by(JOB + 1)
    machine.pass_(seconds=79)
    assert acts(machine) == []
    machine.pass_(seconds=2)
    assert acts(machine) == ["shutdown"]


def test_a_protection_stops_the_countdown_for_as_long_as_it_lasts(machine: Machine) -> None:
    guarded(machine).pass_(seconds=70)
    number = machine.protect(f"gpu:{machine.gpu(0).uuid}")
    machine.pass_(minutes=10)
    assert "not yet" in machine.done[-1]
    assert acts(machine) == []
    machine.world.protections.release(number)
    machine.pass_(seconds=90)
    assert acts(machine) == ["shutdown"]


def test_a_protection_before_the_countdown_is_reported_once(machine: Machine) -> None:
    guarded(machine)
    machine.protect(f"gpu:{machine.gpu(0).uuid}")
    machine.pass_(minutes=10)
    assert machine.done == []
    assert [event.kind for event in machine.events() if "not yet" in event.because] == ["refusal"]
    assert len([line for line in machine.told if "does nothing while this lasts" in line]) == 1


def goes(machine: Machine) -> None:
    machine.gpu(1).is_there = False


def all_go(machine: Machine) -> None:
    for gpu in machine.gpus:
        gpu.is_there = False


def falls_off_the_bus(machine: Machine) -> None:
    machine.gpu(1).lost()


def is_unknown(machine: Machine) -> None:
    machine.gpu(1).unknown("the driver does not say")


@pytest.mark.parametrize("missing", [goes, all_go, falls_off_the_bus, is_unknown])
@pytest.mark.parametrize("action", ["shutdown", "reboot", "run:true"])
def test_nothing_is_done_on_missing_data(machine: Machine, action: str, missing: Callable[[Machine], None]) -> None:
    guarded(machine, f"{EVENING}gpus = '0-1'\naction = '{action}'\n")
    missing(machine)
    machine.pass_(minutes=5)
    assert machine.done == []
    assert len([line for line in machine.told if "paused" in line]) == 1, "said once, and not at every tick"


@pytest.mark.parametrize("missing", [goes, falls_off_the_bus, is_unknown])
def test_no_signal_is_sent_on_missing_data(machine: Machine, missing: Callable[[Machine], None]) -> None:
    machine.proc.start(JOB)
    machine.gpu(0).held_by(JOB + 1)  # somebody else, who gets none at all
    rules = GuardRules((SendSignal("KILL"),), arm_for_s=10.0, idle_for_s=60.0, countdown_s=0.0)
    with open_run(machine.world, machine.told.append) as run:
        guard = GuardLoop(run, rules, gpus="0-1", attach=JOB, armed=True, host=machine.host)

        def pass_minutes(count: int) -> bool:
            for _ in range(60 * count):
                machine.clock.sleep(1.0)
                guard.turn(machine.world.gpu_reader.look(Depth.ALL))
            return bool(machine.done)

        missing(machine)
        assert not pass_minutes(5)
        machine.gpu(1).is_there = True
        machine.gpu(1).well()
        assert pass_minutes(2)
        assert machine.done == [f"SIGKILL to {JOB}"]


def test_a_dry_run_sends_no_signal_to_the_attached_process(machine: Machine) -> None:
    machine.proc.start(JOB)
    rules = GuardRules((SendSignal("KILL"),), idle_for_s=5.0, countdown_s=0.0)
    with open_run(machine.world, machine.told.append, dry_run=True) as run:
        guard = GuardLoop(run, rules, attach=JOB, armed=True, host=machine.host)
        for _ in range(10):
            machine.clock.sleep(1.0)
            guard.turn(machine.world.gpu_reader.look(Depth.ALL))
    assert machine.said(f"would send SIGKILL to pid {JOB}")
    assert machine.done == []


def test_an_action_that_fails_is_tried_three_times_and_the_machine_goes_down_all_the_same(machine: Machine) -> None:
    notice, run = "notify: ntfy://topic", "run: sync"
    machine.actions.outcomes = {notice: [FAILS] * 9, run: [PermissionError("a hook that became root")] * 9}
    guarded(machine, f"{EVENING}action = ['notify:ntfy://topic', 'run:sync', 'shutdown']\n").pass_(minutes=3)
    assert acts(machine) == [notice] * 3 + [run] * 3 + ["shutdown"]
    failed = [line for line in machine.told if "failed to" in line]
    assert [line.rpartition("; ")[2] for line in failed] == ["again in 10s", "again in 20s", "given up"] * 2
    assert "it failed with PermissionError: a hook that became root" in failed[-1]


class NobodysHooks(SystemHooks):
    """Runs commands as an ordinary user who runs fallow."""

    def run_command(self, line: str, variables: Mapping[str, str]) -> Outcome:
        os.setresuid(65534, 65534, 0)
        try:
            return super().run_command(line, variables)
        finally:
            os.setresuid(0, 0, 0)


@pytest.mark.as_root
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_a_hook_that_became_root_and_cannot_be_ended_does_not_keep_the_machine_on(
    machine: Machine, open_folder: pathlib.Path
) -> None:
    hooks = NobodysHooks(os.environ, command_limit_s=0.1)
    actuators = HostActuators(machine.actions, hooks, machine.actions)
    line = f"exec {becomes_root(open_folder)} >> {open_folder}/pids"
    (open_folder / "pids").touch()
    (open_folder / "pids").chmod(0o666)
    rules = GuardRules((RunCommand(line), PowerOff()), arm_for_s=1.0, idle_for_s=10.0, countdown_s=0.0)
    with open_run(machine.world, machine.told.append) as run:
        guard = GuardLoop(run, rules, armed=True, host=lambda *_, **__: actuators)
        for _ in range(120):
            machine.clock.sleep(1.0)
            guard.turn(machine.world.gpu_reader.look(Depth.ALL))
    pids = (open_folder / "pids").read_text().split()
    for pid in pids:
        os.kill(int(pid), signal.SIGKILL)
    assert (len(pids), acts(machine)) == (3, ["shutdown"])


def test_power_off_is_tried_until_it_succeeds(machine: Machine) -> None:
    machine.actions.outcomes = {"shutdown": [FAILS] * 6}
    guarded(machine).pass_(minutes=10)
    assert acts(machine) == ["shutdown"] * 7
    assert phase(machine) == "acted"


def test_when_work_comes_back_between_two_tries_it_is_called_off(machine: Machine) -> None:
    machine.actions.outcomes = {"shutdown": [FAILS]}
    guarded(machine).pass_(seconds=85)
    assert acts(machine) == ["shutdown"]
    machine.gpu(0).held_by(JOB, load=0.9)
    machine.pass_(minutes=10)
    assert acts(machine) == ["shutdown"]
    assert "called off" in machine.done[-1]


def test_while_an_action_is_under_way_nothing_else_is_begun_and_the_daemon_goes_on(machine: Machine) -> None:
    machine.actions.outcomes = {"run: upload": [None]}
    guarded(machine, f"{EVENING}action = ['run:upload', 'shutdown']\n").pass_(minutes=10)
    assert acts(machine) == ["run: upload"]
    assert machine.board.status.wall_s == machine.clock.wall_s(), "it looks as before"


def test_a_protection_that_comes_during_an_action_keeps_the_machine_on(machine: Machine) -> None:
    machine.actions.outcomes = {"run: upload": [None]}
    guarded(machine, f"{EVENING}action = ['run:upload', 'shutdown']\n").pass_(seconds=90)
    machine.protect(f"gpu:{machine.gpu(0).uuid}")
    (upload,) = machine.actions.hanging
    upload.set_result(Outcome(True, "ended well"))
    machine.pass_(minutes=5)
    assert acts(machine) == ["run: upload"]
    assert [event.finding for event in machine.events() if event.kind == "refusal"] == ["turn the machine off"]


@pytest.mark.parametrize("dry_run", ["[machine]\nevery = '1s'\n", "dry_run = true\n"])
def test_a_dry_run_says_all_and_does_nothing(machine: Machine, dry_run: str) -> None:
    of_the_guard = "dry_run" in dry_run
    machine.configure(f"{SHUTDOWN}{dry_run if of_the_guard else ''}", dry_run=not of_the_guard)
    machine.gpu(0).held_by(JOB, load=0.9)
    machine.pass_(seconds=15)
    machine.gpu(0).left_by(JOB)
    machine.pass_(minutes=2)
    assert machine.done == []
    assert machine.said("the GPUs have been quiet for 1m: would turn the machine off in 20s")
    assert machine.said("would turn the machine off: the GPUs have been quiet for 1m")
    assert not machine.said("about to")


def test_a_reload_keeps_what_was_counted_and_one_that_changes_the_guard_calls_it_off(machine: Machine) -> None:
    guarded(machine).pass_(seconds=70)
    machine.configure(f"[history]\nkeep_for = '7d'\n{SHUTDOWN}")
    assert phase(machine) == "countdown"
    machine.configure("")
    assert machine.done[-1] == "announce: called off: it is not in the config any more"
    machine.pass_(minutes=10)
    assert acts(machine) == []


def test_a_guard_goes_on_counting_when_the_daemon_looks_less_often(machine: Machine) -> None:
    guarded(machine, f"[machine]\nevery = '1s'\n{SHUTDOWN}")
    machine.configure(f"[machine]\nevery = '15s'\n{SHUTDOWN}")
    machine.pass_(minutes=2)
    assert acts(machine) == ["shutdown"]


def test_the_daemon_calls_a_countdown_off_when_it_ends(machine: Machine) -> None:
    guarded(machine).pass_(seconds=70)
    machine.end()
    assert machine.done[-1] == "announce: called off: fallow up was ended"


def test_somebody_at_a_terminal_keeps_the_machine_on_until_they_are_gone(machine: Machine) -> None:
    terminal = pathlib.Path(machine.world.device_folder) / "pts" / "0"
    terminal.touch()
    guarded(machine, f"{SHUTDOWN}unless = 'users:5m'\n")
    for _ in range(8):
        os.utime(terminal, (machine.clock.wall_s(),) * 2)  # she types
        machine.pass_(minutes=1)
    assert machine.done == []
    machine.pass_(minutes=5)
    assert acts(machine) == []
    machine.pass_(seconds=30)
    assert acts(machine) == ["shutdown"], "she is away, it is quiet, and the countdown is over"


def test_people_that_cannot_be_told_keep_the_machine_on(machine: Machine) -> None:
    guarded(machine, f"{SHUTDOWN}unless = 'users'\n")
    shutil.rmtree(machine.world.device_folder)
    shutil.rmtree(machine.folder / "sessions")
    machine.pass_(minutes=5)
    assert machine.done == []


def test_a_cpu_at_work_and_a_program_that_runs_speak_against_it(machine: Machine) -> None:
    guarded(machine, f"{SHUTDOWN}unless = ['cpu:20', 'process:upload.py']\n")
    busy = 0

    def pass_minutes(share: float) -> None:
        nonlocal busy
        for _ in range(120):
            busy += round(100 * share)
            total = 100 * round(machine.clock.now_s + 1)
            (machine.folder / "proc" / "stat").write_text(f"cpu  {busy} 0 0 {total - busy} 0 0 0 0 0 0\n")
            machine.pass_(seconds=1)

    pass_minutes(0.5)
    machine.proc.start(99, command="python -u upload.py")
    pass_minutes(0.1)
    assert machine.done == []
    assert str(machine.board.guards[0].reason) == "upload.py runs (pid 99)"
    machine.proc.end(99)
    pass_minutes(0.1)
    assert acts(machine) == ["shutdown"]
