"""What idle rules do to the processes of a scripted machine, and what they leave alone."""

import grp
import os
import pathlib
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from fallow.core.board import outlook_on
from fallow.core.gpu import Holder
from fallow.core.protections import OneGpu, OneProcess
from fallow.core.unknown import Unknown
from fallow.core.value import fields
from tests.core.gpus import GIB
from tests.harness import Machine
from tests.places import ME
from tests.policies.loads import HOLDS, SPINS, card

JOB, OTHER, LAUNCHER, BELOW = 4711, 4712, 4000, 4800
RULE = """
[[idle]]
name = "forgotten"
act = true
idle_for = "20s"
warmup = "5s"
warn_before = "10s"
grace = "5s"
"""
HANGS = "[[idle]]\nname = 'hangs'\nstuck_for = '30s'\n"


@pytest.fixture
def large(tmp_path: pathlib.Path) -> Iterator[Machine]:
    made = Machine(tmp_path, 4)
    yield made
    made.close()


def untouched(machine: Machine) -> bool:
    """Whether nobody was even warned."""
    return machine.done == [] and not machine.said("will be stopped")


def test_a_rule_that_only_reports_never_signals_and_reports_once(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB)
    machine.configure(RULE.replace("act = true\n", ""))
    machine.pass_(minutes=5)
    assert [line for line in machine.told if "is idle for 20s" in line] == [machine.told[-1]]
    assert [event.kind for event in machine.events()] == ["verdict"]
    assert untouched(machine)
    machine.gpu(0).held_by(JOB, load=0.5)
    machine.pass_(seconds=1)
    assert machine.events()[-1].finding == "goes on"


@pytest.mark.parametrize(
    "missing",
    [
        {"holders": Unknown("the driver does not say")},
        {"trouble": "the GPU is lost"},
        {"uuid": Unknown("no answer")},
        {"holders": Unknown("no answer"), "uuid": Unknown("no answer"), "trouble": "it does not answer"},
    ],
)
def test_a_card_of_which_nobody_knows_who_works_there_stops_every_clock(
    machine: Machine, missing: dict[str, Any]
) -> None:
    machine.gpu(0).held_by(JOB)
    machine.gpu(1).held_by(JOB, load=0.9)
    machine.gpu(1).shows(utilization=Unknown("no"), recent=Unknown("no"), memory=Unknown("no"), **missing)
    machine.configure(RULE)
    machine.pass_(seconds=200)
    assert untouched(machine)


def test_a_card_that_falls_off_the_bus_takes_no_work_with_it(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB)
    machine.gpu(1).held_by(JOB, load=0.9)
    machine.configure(RULE)
    machine.pass_(seconds=5)
    machine.gpu(1).is_there = False
    machine.pass_(seconds=200)
    assert untouched(machine), "it was on the card that cannot be seen now"


@pytest.mark.parametrize("protect", [f"users = ['{ME}']", "commands = ['train.py']", "commands = ['*train*']"])
def test_who_is_protected_is_never_even_warned(machine: Machine, protect: str) -> None:
    machine.gpu(0).held_by(JOB)
    machine.configure(f"{RULE}[protect]\n{protect}\n")
    machine.pass_(seconds=200)
    assert untouched(machine)


def test_a_protected_command_below_the_holder_protects_it(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB)
    machine.proc.start(BELOW, command="sleep 100", parent=JOB)
    machine.configure(f"{RULE}[protect]\ncommands = ['sleep']\n")
    machine.pass_(seconds=200)
    assert untouched(machine)
    (refusal,) = [event for event in machine.events() if event.kind == "refusal"]
    assert "runs sleep, and [protect] commands has 'sleep'" in refusal.because


def test_a_hold_is_respected_for_as_long_as_it_lasts(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB)
    machine.configure(RULE)
    machine.pass_(seconds=20)
    until_s = machine.clock.wall_s() + 3600.0
    number = machine.world.protections.place(OneGpu(machine.gpu(0).uuid), until_s, "mine")
    machine.pass_(seconds=100)
    assert machine.said("goes on: ")
    assert machine.done == []
    machine.world.protections.release(number)
    machine.pass_(seconds=5)
    (counting,) = machine.board.counting
    assert counting.counted_since == "its protection ended", "the time began again, and says so"
    machine.pass_(seconds=17)
    assert machine.done == [f"SIGTERM to {JOB}"]


def test_a_hold_after_the_asking_spares_who_is_left(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB, ignores=[signal.SIGTERM])
    machine.configure(RULE)
    machine.pass_(seconds=27)
    stat = machine.proc.stat(JOB)
    assert stat is not None
    machine.world.protections.place(OneProcess(JOB, stat.birth), machine.clock.wall_s() + 3600.0, "mine")
    machine.pass_(seconds=100)
    assert machine.done == [f"SIGTERM to {JOB}"]


def test_no_more_are_ended_than_the_limit_allows(large: Machine) -> None:
    large.proc.start(LAUNCHER, command="jupyter-lab")
    kernels = range(JOB, JOB + 4)
    for gpu, pid in zip(large.gpus, kernels, strict=True):
        gpu.held_by(pid, parent=LAUNCHER)
    large.configure(f"{RULE}[protect]\nat_most = 2\nper = '10m'\n")
    large.pass_(seconds=200)
    assert len(large.done) == 2
    assert len([event for event in large.events() if event.kind == "refusal"]) == 2
    left = [(gpu, pid) for gpu, pid in zip(large.gpus, kernels, strict=True) if large.proc.stat(pid)]

    def kept_back() -> list[str | None]:
        return [outlook_on(gpu.uuid, large.board.counting).kept_back for gpu, _ in left]

    why = "2 were ended in the last 10m, and 2 may be"
    assert kept_back() == [why] * 2
    large.clock.sleep(0.4)
    large.daemon.turn()
    assert kept_back() == [why] * 2, "after a short tick it is due as before"
    for load in (0.9, 0.0):
        for gpu, pid in left:
            gpu.held_by(pid, load=load)
        large.pass_(seconds=3)
    assert kept_back() == [None, None], "they worked: nothing is due"


def test_of_two_notebooks_only_the_idle_one_is_stopped_and_the_server_lives(machine: Machine) -> None:
    machine.proc.start(LAUNCHER, command="jupyter-lab")
    machine.gpu(0).held_by(JOB, parent=LAUNCHER)
    machine.gpu(1).held_by(OTHER, parent=LAUNCHER, load=0.4)
    machine.configure(RULE)
    machine.pass_(seconds=60)
    assert machine.done == [f"SIGTERM to {JOB}"]


def test_workers_of_one_launcher_are_one_job(machine: Machine) -> None:
    machine.proc.start(LAUNCHER, command="python launch.py")
    machine.gpu(0).held_by(JOB, parent=LAUNCHER)
    machine.gpu(1).held_by(OTHER, parent=LAUNCHER, load=1.0)
    machine.configure(RULE)
    machine.pass_(seconds=200)
    assert untouched(machine), "one waits for the other, which works"


def test_somebody_new_in_a_job_is_never_asked_before_being_warned(machine: Machine) -> None:
    machine.proc.start(LAUNCHER, command="python launch.py")
    machine.gpu(0).held_by(JOB, parent=LAUNCHER)
    machine.configure(RULE)
    machine.pass_(seconds=24)
    machine.gpu(1).held_by(OTHER, parent=LAUNCHER)
    machine.pass_(seconds=14)
    assert machine.said("a process has joined it")
    assert machine.done == []


def test_who_lets_go_of_its_card_when_asked_may_live_on(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB, ignores=[signal.SIGTERM])
    machine.configure(RULE)
    machine.pass_(seconds=26)
    machine.gpu(0).left_by(JOB)
    machine.pass_(seconds=100)
    assert "it gave its GPUs back" in machine.told[-1]
    assert machine.done == [f"SIGTERM to {JOB}"]


def test_fallow_itself_and_what_it_lives_by_is_never_looked_at(machine: Machine) -> None:
    pids = {os.getpid(): "python", JOB: "fallow up", OTHER: "Xorg"}
    for pid, command in pids.items():
        machine.proc.start(pid, command=command)
    machine.proc.start(BELOW, command="sleep 100", parent=JOB)
    nobody = 2**22 + 1
    holders = tuple(Holder(pid, GIB, utilization=0.0) for pid in (*pids, BELOW, 1, nobody))
    machine.gpu(0).shows(holders=holders)
    machine.configure(RULE)
    machine.pass_(seconds=100)
    assert untouched(machine)
    assert machine.board.counting == ()


def test_a_card_that_is_not_there_is_told_and_the_rule_rests(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB)
    machine.configure(f"{RULE}gpus = '7'\n")
    machine.pass_(seconds=50)
    assert [line for line in machine.told if "rule forgotten" in line] == [
        "rule forgotten: there is no GPU '7' here; there are 0, 1"
    ]
    assert untouched(machine)


@pytest.mark.parametrize(("acts", "done"), [("", []), ("act = true\n", [f"SIGTERM to {JOB}"])])
def test_a_process_that_hangs_is_reported_or_stopped_as_the_rule_says(
    machine: Machine, acts: str, done: list[str]
) -> None:
    machine.proc.start(JOB)
    machine.configure(HANGS + acts)
    for load, share, seconds in ((HOLDS, 0.0, 3), (SPINS, 0.99, 100)):
        gpu = card(load, holders=(Holder(JOB, GIB, utilization=share),))
        machine.gpu(0).shows(
            **{name: getattr(gpu, name) for name in fields(type(gpu)) if name not in ("index", "uuid")}
        )
        machine.pass_(seconds=seconds)
    assert machine.done[:1] == done
    assert len([line for line in machine.told if "rule hangs" in line and "looks stuck" in line]) == 1


@pytest.mark.as_root
def test_users_in_a_protected_group_and_those_whose_groups_nobody_knows_are_left_alone_beside_another(
    large: Machine,
) -> None:
    """Root is in its primary group, the user `daemon` is not, and one user has no account to look up."""
    for pid, user in ((JOB, "root"), (OTHER, "daemon"), (BELOW, "61001")):
        large.gpu(pid % 4).held_by(pid, user=user)
    large.configure(f"{RULE}[protect]\ngroups = ['{grp.getgrgid(0).gr_name}']\n")
    large.pass_(seconds=60)
    assert large.done == [f"SIGTERM to {OTHER}"]
    (said,) = [line for line in large.told if "[protect] groups" in line]
    assert "those of 61001 are unknown" in said


def test_a_rule_for_one_gpu_leaves_the_launch_beside_it_in_the_same_terminal_alone(machine: Machine) -> None:
    machine.proc.start(LAUNCHER, command="sh")
    for gpu, pid in zip(machine.gpus, (JOB, OTHER), strict=True):
        gpu.held_by(pid, parent=LAUNCHER, session=LAUNCHER, environ={"FALLOW_CLAIM": gpu.uuid})
    machine.configure(f"{RULE}gpus = '0'\n")
    machine.pass_(seconds=60)
    assert machine.done == [f"SIGTERM to {JOB}"]


def test_a_rule_judges_no_job_that_holds_a_gpu_which_it_does_not_name(machine: Machine) -> None:
    for gpu in machine.gpus:
        gpu.held_by(JOB)
    machine.gpu(0).held_by(OTHER)
    machine.configure(f"{RULE}gpus = '0'\n")
    machine.pass_(seconds=60)
    assert machine.done == [f"SIGTERM to {OTHER}"]
