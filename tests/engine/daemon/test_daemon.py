"""`fallow up` as a whole: its parts do not disturb each other, a reload keeps what it can, and nothing blocks it."""

import gc
import os
import pathlib
import shutil
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from fallow.core.activity import Activity
from fallow.core.gpu import Recent
from fallow.core.visibility import ANYBODY
from fallow.engine.history.reader import open_history
from tests.harness import Machine
from tests.length import HOURS
from tests.places import ME

JOB, GUEST = 4711, 4712
EVERY = "[machine]\nevery = '1s'\n"
FILLER = f"[[filler]]\nname = 'spare'\nuser = '{ME}'\ncommand = ['true']\ngpus = '0'\nidle_for = '5s'\n"
RULE = "[[idle]]\nname = 'forgotten'\nact = true\nidle_for = '20s'\nwarn_before = '10s'\nwarmup = '0s'\n"
GUARD = "[[guard]]\nname = 'evening'\naction = 'shutdown'\narm_for = '5s'\nidle_for = '10s'\ncountdown = '5s'\n"


def told(machine: Machine, words: str) -> int:
    return len([line for line in machine.told if words in line])


def test_one_part_that_fails_ends_no_other_and_is_told_once(machine: Machine) -> None:
    stat = machine.folder / "proc" / "stat"
    stat.write_text("rubbish\n")
    machine.gpu(1).held_by(JOB)
    machine.configure(f"{FILLER}{RULE}{GUARD}unless = 'cpu:20'\n")
    machine.pass_(seconds=30)
    assert machine.done == ["start spare on GPU 0", f"SIGTERM to {JOB}"]
    assert machine.board.status.wall_s == machine.clock.wall_s(), "people see what is there now"
    assert told(machine, "guard evening failed: ") == 1
    stat.write_text("cpu  0 0 0 100 0 0 0 0 0 0\n")
    machine.pass_(seconds=15)
    assert told(machine, "guard evening: no failure any more") == 1


def test_a_look_that_fails_judges_nobody_and_the_next_one_goes_on(machine: Machine) -> None:
    machine.configure(f"{RULE}{GUARD}")
    machine.gpu(0).held_by(JOB)
    (machine.folder / "proc" / str(JOB) / "stat").write_text("rubbish")
    machine.pass_(seconds=60)
    assert machine.done == []
    assert told(machine, "looking failed: ") == 1
    machine.proc.end(JOB)
    machine.gpu(1).held_by(GUEST)
    machine.pass_(seconds=30)
    assert machine.done == [f"SIGTERM to {GUEST}"]


def test_a_guard_that_cannot_be_begun_keeps_no_other_part_from_its_new_config(machine: Machine) -> None:
    machine.configure(EVERY)
    machine.configure(f"{GUARD}user = 'nobody-of-that-name'\n{RULE}{FILLER}")
    assert machine.said("guard evening, with this config, failed: there is no user 'nobody-of-that-name'")
    machine.gpu(1).held_by(JOB)
    machine.pass_(seconds=30)
    assert machine.done == ["start spare on GPU 0", f"SIGTERM to {JOB}"]


def test_a_claim_folder_that_is_lost_ends_nothing_and_no_guard_acts_meanwhile(machine: Machine) -> None:
    machine.configure(f"{FILLER}{GUARD}")
    machine.pass_(seconds=10)
    claims = machine.folder / "claims"
    shutil.rmtree(claims)
    claims.touch()
    machine.gpu(0).held_by(JOB, load=0.9)
    machine.pass_(seconds=20)
    machine.proc.end(JOB)
    machine.pass_(seconds=60)
    assert machine.done == ["start spare on GPU 0", "ask spare on GPU 0"]
    claims.unlink()
    machine.pass_(seconds=30)
    assert [words for words in machine.done[2:] if not words.startswith("announce")] == [
        "start spare on GPU 0",
        "shutdown",
    ]


@contextmanager
def locked(file: pathlib.Path) -> Iterator[None]:
    """Another program has the database for itself."""
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield


def test_neither_a_locked_file_nor_a_dead_socket_blocks_the_loop(machine: Machine, tmp_path: pathlib.Path) -> None:
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tmp_path / "notify"))  # and nobody reads what it gets
    machine.world.environ["NOTIFY_SOCKET"] = str(tmp_path / "notify")  # type: ignore[index]
    machine.world.environ["WATCHDOG_USEC"] = "100000"  # type: ignore[index]
    machine.gpu(0).held_by(JOB)
    machine.configure(RULE)
    machine.pass_(seconds=5)
    state = machine.folder / "state"
    slowest_s = 0.0
    with manager, locked(state / "journal.db"), locked(state / "history.db"):
        for _ in range(20):
            began_s = time.monotonic()
            machine.pass_(seconds=1)
            slowest_s = max(slowest_s, time.monotonic() - began_s)
        began_s = time.monotonic()
        machine.configure(f"{RULE}[history]\nkeep_for = '7d'\n")
        slowest_s = max(slowest_s, time.monotonic() - began_s)
    assert slowest_s < 1.0
    assert machine.done == [f"SIGTERM to {JOB}"]
    machine.pass_(seconds=20)
    assert [event.step for event in machine.events() if event.kind == "action"] == ["warn", "ask"], "nothing is lost"
    machine.end()
    past = open_history(str(state))
    assert past is not None
    begin_ms = 1_700_000_000_000
    assert sum(one.witnessed_ms for one in past.tallies([begin_ms, begin_ms + 3_600_000])) == 2 * 45_000
    past.close()


def test_a_notice_service_that_never_answers_delays_neither_look_nor_reload(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as service:
        notices = f"[notices]\nurls = ['json://127.0.0.1:{service.getsockname()[1]}']\n"
        machine.gpu(0).held_by(JOB)
        machine.configure(f"{RULE}{notices}")
        machine.pass_(seconds=60)
        service.settimeout(10.0)
        connection, _ = service.accept()
        began_s = time.monotonic()
        machine.configure(RULE)
        machine.pass_(seconds=1)
        assert time.monotonic() - began_s < 1.0
        connection.close()


def test_calls_of_other_threads_are_made_by_the_loop_and_answered(machine: Machine) -> None:
    machine.configure(EVERY)
    calls, daemon = machine.daemon.calls, machine.daemon
    answers = [
        calls.ask(daemon.reload),
        calls.ask(lambda: threading.current_thread().name),
        calls.ask(lambda: os.stat("/nowhere")),
    ]
    assert not any(answer.done() for answer in answers)
    calls.make()
    assert answers[0].result(0).ok
    assert answers[1].result(0) == threading.current_thread().name
    assert str(answers[2].exception(0)).startswith("the system gives the daemon no more")
    left = calls.ask(daemon.reload)
    machine.end()
    assert left.cancelled()


def fillers(machine: Machine) -> dict[str, str]:
    return {f"{view.name} {','.join(view.gpus)}": view.phase for view in machine.board.fillers}


TWO_FILLERS = FILLER.replace("spare", "high").replace("idle_for = '5s'", "idle_for = '20s'\npriority = 5") + (
    FILLER.replace("spare", "low").replace("gpus = '0'", "gpus = '0-1'")
)
SETTLED = {"high 0": "filled", "low 0": "quiet", "low 1": "filled"}


def test_all_that_changes_is_on_the_board(machine: Machine) -> None:
    machine.configure(f"{TWO_FILLERS}{GUARD}")
    machine.pass_(seconds=30)
    assert fillers(machine) == SETTLED
    assert machine.done == ["start low on GPU 0", "start low on GPU 1", "ask low on GPU 0", "start high on GPU 0"]
    board = machine.board
    assert [gpu.activity for gpu in board.status.gpus] == [Activity.FREE] * 2
    assert [(guard.name, guard.phase) for guard in board.guards] == [("evening", "idle")]
    assert board.counts.actions["start", "done"] == 3
    assert {name: histogram.total for name, histogram in board.counts.yields.items()} == {"low": 1}
    before_s = sum(board.counts.activity_s.values())
    machine.pass_(seconds=50)
    assert sum(machine.board.counts.activity_s.values()) - before_s == pytest.approx(2 * 50)


def test_a_gpu_that_comes_later_is_filled_too_and_one_that_goes_is_given_back(machine: Machine) -> None:
    machine.gpu(1).is_there = False
    machine.configure(TWO_FILLERS)
    machine.pass_(seconds=30)
    assert fillers(machine) == {"high 0": "filled"}
    assert machine.said("low waits for its GPUs: there is no GPU 1 here")
    machine.gpu(1).is_there = True
    machine.pass_(seconds=10)
    assert fillers(machine) == SETTLED
    machine.gpu(1).lost()
    machine.pass_(seconds=15)
    assert machine.done[-1] == "ask low on GPU 1"


def test_a_driver_that_shows_nothing_makes_all_unknown_and_nothing_acts(machine: Machine) -> None:
    machine.gpu(1).held_by(JOB)
    machine.configure(f"{FILLER}{RULE}{GUARD}")
    machine.pass_(seconds=8)
    for gpu in machine.gpus:
        gpu.unknown("the driver does not answer")
    machine.pass_(seconds=60)
    assert machine.done == ["start spare on GPU 0", "ask spare on GPU 0"]
    assert [gpu.activity for gpu in machine.board.status.gpus] == [Activity.UNKNOWN] * 2
    for gpu in machine.gpus:
        gpu.well()
    machine.pass_(seconds=30)
    assert machine.done[2:] == ["start spare on GPU 0", f"SIGTERM to {JOB}"]


def test_a_dry_run_starts_signals_and_turns_off_nothing_and_shows_everything(machine: Machine) -> None:
    machine.gpu(1).held_by(JOB, load=0.9)
    machine.configure(f"{FILLER}{RULE}{GUARD}", dry_run=True)
    machine.pass_(seconds=10)
    machine.gpu(1).held_by(JOB, load=0.0)
    machine.pass_(seconds=40)
    assert machine.done == []
    assert fillers(machine) == {"spare 0": "filled"}
    assert {key: count for key, count in machine.board.counts.actions.items() if key[1] != "dry_run"} == {}
    for words in ("dry run: spare: GPU 0: filling it", f"would stop {ME}'s job {JOB}", "would turn the machine off"):
        assert machine.said(words)


def test_a_reload_ends_only_what_has_changed(machine: Machine) -> None:
    machine.configure(TWO_FILLERS)
    machine.pass_(seconds=30)
    del machine.done[:]
    machine.configure(TWO_FILLERS.replace("'5s'", "'6s'").replace("command = ['true']", "command = ['cat']", 1))
    machine.pass_(seconds=40)
    assert fillers(machine) == SETTLED
    assert [words for words in machine.done if "GPU 1" in words] == [], "other rules, the same process"
    assert machine.done[0] == "ask high on GPU 0"
    machine.configure(EVERY)
    machine.pass_(seconds=3)
    assert fillers(machine) == {}
    assert machine.said("low: GPU 1: giving it back: the config has changed")


def test_a_reload_keeps_what_was_counted_and_warned(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB)
    machine.configure(RULE)
    machine.pass_(seconds=12)
    assert machine.steps() == ["warn at 0:00:10"]
    machine.configure(f"{RULE}[protect]\ncommands = ['something']\n[history]\nkeep_for = '7d'\n{FILLER}")
    machine.pass_(seconds=1)
    assert machine.board.status.gpus[0].for_s == pytest.approx(13.0)
    machine.pass_(seconds=8)
    assert machine.steps() == ["warn at 0:00:10", "ask at 0:00:20"]


def test_warnings_are_taken_back_when_their_rule_leaves_the_config(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB)
    machine.configure(RULE)
    machine.pass_(seconds=12)
    machine.configure(EVERY)
    assert machine.said(f"job {JOB} (python) goes on: the config has changed")
    machine.pass_(seconds=60)
    assert machine.done == []


def test_warnings_are_taken_back_and_fillers_leave_when_the_daemon_ends(machine: Machine) -> None:
    machine.gpu(1).held_by(JOB)
    machine.configure(f"{RULE}{FILLER}")
    machine.pass_(seconds=12)
    machine.end()
    assert machine.said(f"job {JOB} (python) goes on: fallow is ended")
    assert machine.done == ["start spare on GPU 0", "ask spare on GPU 0"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[machine]\nevry = 1\n[page]\nlisten = 'x'", ("fallow.toml:2: machine.evry", "fallow.toml:4: page.listen")),
        (None, ("there is no such file",)),
    ],
)
def test_a_wrong_config_is_told_and_the_old_one_stays(machine: Machine, text: str | None, says: tuple[str]) -> None:
    machine.configure(FILLER)
    machine.pass_(seconds=10)
    file = machine.folder / "fallow.toml"
    file.unlink() if text is None else file.write_text(text)
    assert machine.daemon.reload().ok is False
    for words in ("the config is not loaded, and the old one stays in force", *says):
        assert machine.said(words)
    machine.pass_(seconds=10)
    assert fillers(machine) == {"spare 0": "filled"}


def test_a_job_that_pauses_is_busy_and_the_counters_have_what_was_reported(machine: Machine) -> None:
    machine.configure(EVERY)
    for second in range(45):
        machine.gpu(0).held_by(JOB, load=0.5 if second % 3 == 0 else 0.0)
        machine.pass_(seconds=1)
        assert machine.board.status.gpus[0].activity is Activity.BUSY
    machine.gpu(0).held_by(JOB, load=0.0)
    machine.pass_(seconds=30)
    assert machine.board.status.gpus[0].activity is Activity.IDLE
    spent = {
        (activity, user): seconds
        for (uuid, activity, user), seconds in machine.board.counts.activity_s.items()
        if uuid == machine.gpu(0).uuid and user == ME
    }
    assert spent == {("busy", ME): pytest.approx(54.0), ("idle", ME): pytest.approx(21.0)}, "idleness settles"


def test_work_between_two_looks_counts_as_work(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB, load=0.9)
    machine.configure(f"{RULE}{GUARD}")
    machine.pass_(seconds=10)
    machine.gpu(0).held_by(JOB, load=0.0)
    machine.gpu(0).shows(recent=Recent(1.0, 0.1, 1.0))
    machine.pass_(minutes=5)
    assert machine.done == []
    assert machine.board.status.gpus[0].activity is Activity.BUSY
    machine.gpu(0).well()
    machine.pass_(minutes=1)
    assert {words for words in machine.done if "announce" not in words} == {"shutdown", f"SIGTERM to {JOB}"}


def test_people_see_a_board_without_the_command_lines_of_others(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB, user="ada", command="python train.py --key=secret")
    machine.configure(EVERY)
    assert "secret" not in f"{machine.board.status} {machine.board.as_seen_by(ANYBODY)}"
    machine.configure(f"{EVERY}show_commands = 'everyone'\n")
    machine.pass_(seconds=1)
    assert "secret" in str(machine.board.status)


@pytest.mark.more
def test_hours_of_comings_and_goings_leak_no_memory_and_no_descriptor(machine: Machine) -> None:
    machine.configure(f"[machine]\nevery = '15s'\n{TWO_FILLERS}{RULE}act = false\n".replace("act = true\n", ""))
    costs = []
    for hour in range(HOURS):
        for gpu in machine.gpus:
            gpu.held_by(JOB, load=0.9)
        machine.pass_(minutes=15)
        machine.gpu(0).held_by(JOB)
        machine.pass_(minutes=15)
        for gpu in machine.gpus:
            gpu.left_by(JOB)
        if hour % 6 == 5:
            assert machine.daemon.reload().ok
        machine.pass_(minutes=30)
        assert machine.daemon._history.settle(10.0)
        gc.collect()
        costs.append((len(gc.get_objects()), len(os.listdir("/proc/self/fd")), threading.active_count()))
        machine.told.clear()
        machine.done.clear()
        machine.actions.fillers.clear()
    (objects, files, threads), late = costs[len(costs) // 2], costs[-1]
    assert late[0] <= objects * 1.01, costs
    assert late[1:] <= (files, threads), costs
