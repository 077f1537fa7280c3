"""Idle rules on people's processes: who is warned, asked and killed, and who is left alone."""

import os
import signal

import pytest

from fallow.core.board import outlook_on
from fallow.core.gpu import Holder
from fallow.core.ports import Depth
from fallow.core.unknown import Unknown
from fallow.engine.idle_rules.gpu_jobs import JobFinder
from fallow.engine.owners.known import KnownOwners
from tests.harness import Machine
from tests.places import ME
from tests.policies.loads import HOLDS, SPINS, Load, card
from tests.scripted import GIB

JOB, OTHER, SHELL = 4711, 4712, 4700
TIMES = "idle_for = '20s'\nwarmup = '5s'\nwarn_before = '10s'\ngrace = '5s'\n"
RULE = f"[[idle]]\nname = 'forgotten'\nact = true\n{TIMES}"
WARN_S, ASK_S, KILL_S = 15, 25, 30


def test_a_job_that_idles_is_warned_then_asked_then_gone(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB)
    machine.configure(RULE)
    machine.pass_(seconds=60)
    assert machine.steps() == ["warn at 0:00:15", "ask at 0:00:25"]
    assert machine.done == [f"SIGTERM to {JOB}"]
    assert machine.told[0].endswith(f"job {JOB} (python) will be stopped in 10s unless it works")
    assert "nobody of it is left" in machine.told[-1]
    assert [(event.kind, event.finding) for event in machine.events(f"pid:{JOB}")] == [
        ("verdict", "idle"),
        ("action", "warn that the job will be asked to end in 10s"),
        ("outcome", "warn that the job will be asked to end in 10s"),
        ("verdict", "idle"),
        ("action", "ask the job to end with SIGTERM"),
        ("outcome", "ask the job to end with SIGTERM"),
        ("outcome", "stopped"),
    ]
    assert {event.step for event in machine.events() if event.rule == "forgotten"} >= {"warn", "ask", "stopped"}
    assert dict(machine.board.counts.actions) == {("warn", "done"): 1, ("ask", "done"): 1}


def test_one_that_hears_nothing_is_killed_after_its_grace(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB, ignores=[signal.SIGTERM])
    machine.configure(RULE)
    machine.pass_(seconds=60)
    assert machine.steps() == ["warn at 0:00:15", "ask at 0:00:25", "kill at 0:00:30"]
    assert machine.done == [f"SIGTERM to {JOB}", f"SIGKILL to {JOB}"]


def test_one_that_survives_sigkill_is_named_and_blocks_nothing(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB, ignores=[signal.SIGTERM, signal.SIGKILL])
    machine.gpu(1).held_by(OTHER, session=OTHER)
    machine.configure(RULE)
    machine.pass_(seconds=60)
    assert machine.done[:2] == [f"SIGTERM to {JOB}", f"SIGTERM to {OTHER}"]
    assert machine.said("could not be ended: ")


def test_one_that_gives_its_gpu_back_when_asked_may_live_on(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB, ignores=[signal.SIGTERM])
    machine.configure(RULE)
    machine.pass_(seconds=ASK_S)
    machine.gpu(0).left_by(JOB)
    machine.pass_(seconds=60)
    assert machine.done == [f"SIGTERM to {JOB}"]
    assert "it gave its GPUs back" in machine.told[-1]


def test_work_takes_the_warning_back_and_the_time_begins_again(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB)
    machine.configure(RULE)
    machine.pass_(seconds=18)
    machine.gpu(0).held_by(JOB, load=1.0)
    machine.pass_(seconds=1)
    machine.gpu(0).held_by(JOB, load=0.0)
    machine.pass_(seconds=40)
    steps = [step.partition(" at ")[0] for step in machine.steps()]
    assert steps == ["warn", "cancel_warning", "warn", "ask"]
    assert machine.steps()[-1] == "ask at 0:00:39"


def test_a_rule_that_only_reports_never_signals_and_reports_once(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB)
    machine.configure(RULE.replace("act = true\n", ""))
    machine.pass_(minutes=5)
    assert machine.done == []
    (line,) = machine.told
    assert "is idle for 20s" in line
    assert [event.kind for event in machine.events()] == ["verdict"]
    machine.gpu(0).held_by(JOB, load=0.5)
    machine.pass_(seconds=1)
    assert machine.events()[-1].finding == "goes on"


UNREADABLE = Unknown("the driver does not say")


@pytest.mark.parametrize(
    "missing",
    [
        {"holders": UNREADABLE},
        {"trouble": "the GPU is lost"},
        {"uuid": UNREADABLE},
        {"holders": UNREADABLE, "uuid": UNREADABLE, "trouble": "it does not answer"},
    ],
)
def test_a_gpu_of_which_nobody_knows_who_works_there_stops_every_clock(
    machine: Machine, missing: dict[str, object]
) -> None:
    for index, load in enumerate((0.0, 0.9)):
        machine.gpu(index).held_by(JOB, load=load)
    machine.gpu(1).unknown("no")
    machine.gpu(1).shows(holders=(Holder(JOB, GIB, utilization=0.9),))
    machine.gpu(1).shows(**missing)
    machine.configure(RULE)
    machine.pass_(minutes=3)
    assert machine.done == []
    assert not machine.said("rule forgotten")


def test_a_gpu_that_falls_off_the_bus_takes_no_work_with_it(machine: Machine) -> None:
    for index, load in enumerate((0.0, 0.9)):
        machine.gpu(index).held_by(JOB, load=load)
    machine.configure(RULE)
    machine.pass_(seconds=5)
    machine.gpu(1).is_there = False
    machine.pass_(minutes=3)
    assert machine.done == [], "it was on the GPU that cannot be seen now"


@pytest.mark.parametrize("protect", [f"users = ['{ME}']", "commands = ['train.py']", "commands = ['*train*']"])
def test_who_is_protected_by_the_config_is_never_even_warned(machine: Machine, protect: str) -> None:
    machine.gpu(0).held_by(JOB)
    machine.configure(f"{RULE}[protect]\n{protect}\n")
    machine.pass_(minutes=3)
    assert (machine.done, machine.told) == ([], [])


def test_a_protected_command_below_the_holder_protects_it(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB)
    machine.proc.start(OTHER, command="sleep 100", parent=JOB, session=JOB)
    machine.configure(f"{RULE}[protect]\ncommands = ['sleep']\n")
    machine.pass_(minutes=3)
    assert machine.done == []
    (refusal,) = [event for event in machine.events() if event.kind == "refusal"]
    assert "runs sleep, and [protect] commands has 'sleep'" in refusal.because, "it is written down once"


def test_a_process_of_another_user_below_a_job_of_root_protects_it(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB, user="root")
    machine.proc.start(OTHER, user="ada", parent=JOB, session=JOB)
    machine.configure(RULE)
    machine.pass_(minutes=3)
    assert machine.done == []
    assert "is ada's, not root's" in machine.events()[-1].because


def test_groups_protect_their_members_and_those_whose_groups_nobody_knows(machine: Machine) -> None:
    """Root is in its primary group, the user `daemon` is not, and one user has no account to look up."""
    machine.gpu(0).held_by(JOB, user="root")
    machine.gpu(1).held_by(OTHER, user="daemon")
    machine.gpu(0).held_by(JOB + 5, user="61001")
    machine.configure(f"{RULE}[protect]\ngroups = ['root']\n")
    machine.pass_(minutes=2)
    assert machine.done == [f"SIGTERM to {OTHER}"]
    assert len([line for line in machine.told if "those of 61001 are unknown" in line]) == 1


def test_a_protection_is_respected_for_as_long_as_it_lasts(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB)
    machine.configure(RULE)
    machine.pass_(seconds=20)
    number = machine.protect(f"gpu:{machine.gpu(0).uuid}")
    machine.pass_(seconds=100)
    assert machine.said("goes on: ")
    assert machine.done == []
    machine.world.protections.release(number)
    machine.pass_(seconds=5)
    (counting,) = machine.board.counting
    assert counting.counted_since == "its protection ended", "the time began again, and says so"
    machine.pass_(seconds=17)
    assert machine.done == [f"SIGTERM to {JOB}"]


def test_a_protection_after_the_asking_spares_who_is_left(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB, ignores=[signal.SIGTERM])
    machine.configure(RULE)
    machine.pass_(seconds=ASK_S + 1)
    stat = machine.proc.stat(JOB)
    assert stat is not None
    machine.protect(f"pid:{JOB}@{stat.birth}")
    machine.pass_(seconds=100)
    assert machine.done == [f"SIGTERM to {JOB}"]


def test_no_more_are_ended_than_the_limit_allows(machine: Machine) -> None:
    machine.configure(f"{RULE}[protect]\nat_most = 1\nper = '10m'\n")
    for index in range(2):
        machine.gpu(index).held_by(JOB + index)
    machine.pass_(minutes=3)
    assert machine.done == [f"SIGTERM to {JOB}"]
    assert [event.kind for event in machine.events()].count("refusal") == 1
    left = machine.gpu(1)
    assert outlook_on(left.uuid, machine.board.counting).kept_back == "1 were ended in the last 10m, and 1 may be"
    left.held_by(OTHER, load=0.9)
    machine.pass_(seconds=1)
    left.held_by(OTHER, load=0.0)
    machine.pass_(seconds=3)
    assert outlook_on(left.uuid, machine.board.counting).kept_back is None, "it worked: nothing is due"


def test_of_two_notebooks_only_the_idle_one_is_stopped_and_the_server_lives(machine: Machine) -> None:
    machine.proc.start(SHELL, command="jupyter-lab")
    machine.gpu(0).held_by(JOB, parent=SHELL)
    machine.gpu(1).held_by(OTHER, parent=SHELL, load=0.4)
    machine.configure(RULE)
    machine.pass_(seconds=60)
    assert machine.done == [f"SIGTERM to {JOB}"]


def test_workers_of_one_launcher_are_one_job_and_wait_for_the_one_that_works(machine: Machine) -> None:
    machine.proc.start(SHELL, command="python launch.py")
    machine.gpu(0).held_by(JOB, parent=SHELL)
    machine.gpu(1).held_by(OTHER, parent=SHELL, load=1.0)
    machine.configure(RULE)
    machine.pass_(minutes=3)
    assert machine.done == []
    (counting,) = machine.board.counting
    assert len(counting.processes) == 2


def test_somebody_new_in_a_job_is_never_asked_before_being_warned(machine: Machine) -> None:
    machine.proc.start(SHELL, command="python launch.py")
    machine.gpu(0).held_by(JOB, parent=SHELL)
    machine.configure(RULE)
    machine.pass_(seconds=ASK_S - 1)
    machine.gpu(1).held_by(OTHER, parent=SHELL)
    machine.pass_(seconds=12)
    assert machine.said("a process has joined it")
    assert machine.done == []
    machine.pass_(seconds=30)
    assert set(machine.done) == {f"SIGTERM to {JOB}", f"SIGTERM to {OTHER}"}


def test_a_child_of_a_holder_gets_the_signal_once_and_before_its_parent(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB)
    machine.gpu(0).held_by(OTHER, parent=JOB, session=JOB)
    machine.configure(RULE)
    machine.pass_(seconds=ASK_S)
    assert machine.done == [f"SIGTERM to {OTHER}", f"SIGTERM to {JOB}"], "a second one is taken by many for the last"


def test_a_rule_for_one_gpu_leaves_the_launch_beside_it_in_the_same_terminal_alone(machine: Machine) -> None:
    machine.proc.start(SHELL, command="sh")
    for gpu, pid in zip(machine.gpus, (JOB, OTHER), strict=True):
        gpu.held_by(pid, parent=SHELL, session=SHELL, environ={"FALLOW_CLAIM": gpu.uuid})
    machine.configure(f"{RULE}gpus = '0'\n")
    machine.pass_(seconds=60)
    assert machine.done == [f"SIGTERM to {JOB}"]


def test_a_rule_about_one_gpu_judges_no_job_that_holds_another_too(machine: Machine) -> None:
    for index in range(2):
        machine.gpu(index).held_by(JOB)
    machine.gpu(0).held_by(OTHER)
    machine.configure(f"{RULE}gpus = '0'\n")
    machine.pass_(minutes=2)
    assert machine.done == [f"SIGTERM to {OTHER}"]


def test_a_gpu_that_is_not_there_is_told_and_the_rule_rests(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB)
    machine.configure(f"{RULE}gpus = '7'\n")
    machine.pass_(minutes=1)
    assert machine.told == ["rule forgotten: there is no GPU '7' here; there are 0, 1"]


def test_fallow_itself_and_what_serves_everybody_is_nobodys_job(machine: Machine) -> None:
    machine.proc.start(SHELL, command="/usr/bin/fallow run -- sleep 100")
    machine.gpu(0).held_by(SHELL)
    machine.gpu(0).held_by(JOB, parent=SHELL, command="sleep 100")
    machine.gpu(0).held_by(os.getpid())
    machine.gpu(0).held_by(1)
    machine.gpu(1).held_by(OTHER, user="root", command="/usr/lib/xorg/Xorg :0")
    finder = JobFinder(machine.world, KnownOwners(machine.world, machine.told.append))
    assert finder.jobs(machine.world.gpu_reader.look(Depth.ALL)) == []


@pytest.mark.parametrize("act", ["true", "false"])
def test_a_process_that_hangs_is_reported_or_stopped_as_the_rule_says(machine: Machine, act: str) -> None:
    def shows(load: Load, of_process: float) -> None:
        seen = card(load)
        names = ("utilization", "memory_utilization", "recent", "power_w", "counters", "pcie_rx_bytes_per_s")
        machine.gpu(0).held_by(JOB, load=of_process)
        machine.gpu(0).shows(**{name: getattr(seen, name) for name in (*names, "pcie_tx_bytes_per_s")})

    shows(HOLDS, 0.0)
    machine.configure(f"[[idle]]\nname = 'hangs'\nstuck_for = '30s'\nact = {act}\n")
    machine.pass_(seconds=3)
    shows(SPINS, 0.99)
    machine.pass_(seconds=100)
    assert machine.said(f"rule hangs: {ME}'s job {JOB} (python) looks stuck: ")
    assert machine.done == ([f"SIGTERM to {JOB}"] if act == "true" else [])


def test_a_dry_run_says_what_would_be_done(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB)
    machine.configure(RULE, dry_run=True)
    machine.pass_(minutes=1)
    assert machine.done == []
    assert machine.steps() == ["would warn at 0:00:15", "would ask at 0:00:25", "would kill at 0:00:30"]
    assert dict(machine.board.counts.actions) == {
        ("warn", "dry_run"): 1,
        ("ask", "dry_run"): 1,
        ("kill", "dry_run"): 1,
    }
