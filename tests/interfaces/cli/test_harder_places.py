"""Situations in which a watched job, a protection or a guard once went wrong."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.test_guard import FAST as GUARD_FAST
from tests.interfaces.cli.test_guard import rest, systemctl, until, work
from tests.interfaces.cli.test_run_stops import FAST, job
from tests.places import LIMIT_S
from tests.standin import MigInstance, World

pytestmark = pytest.mark.more

__all__ = ["systemctl"]


def warned(fallow: Fallow, *command: str) -> subprocess.Popen[str]:
    """A watched job that idles and has been warned."""
    watched = fallow.start("run", "--gpus", "0", "--idle-timeout", "2s", *FAST, "--", *command)
    assert watched.stderr is not None
    assert "will be stopped" in watched.stderr.readline()
    return watched


@contextmanager
def halted(watched: subprocess.Popen[str]) -> Iterator[None]:
    """While fallow does not look, the time until the stop does not pass, however long this takes."""
    watched.send_signal(signal.SIGSTOP)
    yield
    watched.send_signal(signal.SIGCONT)


def goes_on(watched: subprocess.Popen[str]) -> bool:
    assert watched.stderr is not None
    for line in watched.stderr:
        if "the job goes on" in line:
            return True
        if "makes no sense, so it protects everything" not in line:
            return False
    return False


def test_a_hold_on_a_child_of_the_job_holds_the_job(simulated: Fallow) -> None:
    watched = warned(simulated, "sh", "-c", "sleep 600 & echo $!; wait")
    assert watched.stdout is not None
    child = watched.stdout.readline().strip()
    with halted(watched):
        assert simulated("protect", f"pid:{child}", "--for", "1h").returncode == 0
    assert goes_on(watched)


def test_a_hold_on_the_watcher_holds_the_job(simulated: Fallow) -> None:
    watched = warned(simulated, "sleep", "600")
    with halted(watched):
        assert simulated("protect", f"pid:{watched.pid}", "--for", "1h").returncode == 0
    assert goes_on(watched)


@pytest.mark.parametrize(
    "content",
    [
        b'{"target": "all", "until": 99999999999, "why": "a\\u0000b"}',
        b'{"target": "all", "until": 3e9, "why": "\\ud800 \\u001b[31m\\nfallow: stopped"}',
        b'{"target": "all", "until": NaN, "why": ""}',
        b"[" * 60000,
        b"garbage",
    ],
    ids=["nul", "escapes", "nan", "deep", "garbage"],
)
def test_nothing_that_a_protection_says_can_end_the_watching(simulated: Fallow, content: bytes) -> None:
    watched = warned(simulated, "sleep", "600")
    protection = pathlib.Path(simulated.environ["FALLOW_CLAIM_DIR"]) / "protection-700000000"
    protection.write_bytes(content)
    assert goes_on(watched)
    for words in (("--list",), ("--list", "--json")):
        listed = simulated("protect", *words)
        assert listed.returncode == 0, listed.stderr
        assert "700000000" in listed.stdout
        assert "\x1b" not in listed.stdout
    assert simulated("protect", "--release", "700000000").returncode == 0
    watched.communicate(timeout=LIMIT_S)
    assert watched.returncode == 124


def test_a_reason_that_is_no_text_is_taken_as_far_as_it_goes(simulated: Fallow) -> None:
    assert simulated("protect", "--for", "1h", "--why", os.fsdecode(b"\xff\x1b")).returncode == 0
    assert simulated("protect", "--list").returncode == 0
    assert simulated("protect", "--for", "99999999999999999").returncode == 2


def test_a_hold_in_a_folder_that_was_made_anew_binds(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    watched = warned(simulated, "sleep", "600")
    with halted(watched):
        os.rename(tmp_path / "claims", tmp_path / "moved")
        assert simulated("protect", "--for", "1h").returncode == 0
    assert goes_on(watched)


def test_holds_that_cannot_be_read_hold(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    watched = warned(simulated, "sleep", "600")
    os.rename(tmp_path / "claims", tmp_path / "moved")
    (tmp_path / "other").mkdir()
    (tmp_path / "claims").symlink_to("other")  # which fallow does not follow
    assert goes_on(watched)
    assert watched.poll() is None


def test_a_card_that_is_split_can_be_held_as_a_whole(make_world: Callable[..., World], fallow: Fallow) -> None:
    world = make_world(cards=2)
    world[1].mig = [MigInstance(), MigInstance()]
    for subject in ("1", world[1].uuid):
        rows = json.loads(fallow("protect", subject, "--for", "1h", "--json").stdout)["protections"]
        assert rows[0]["subject"] == f"gpu:{world[1].uuid}"


def test_why_tells_the_reason_of_a_stop_and_not_what_the_job_did_in_its_grace(simulated: Fallow) -> None:
    program = """
    def save(*_):
        began = time.process_time()
        while time.process_time() < began + 1: pass
        raise SystemExit
    signal.signal(signal.SIGTERM, save)
    time.sleep(600)
    """
    words = ("--gpus", "1", "--idle-timeout", "1s", "--warmup", "0.5s", "--every", "0.25s", "--grace", "20s")
    assert simulated("run", *words, "--", *job(program)).returncode == 124
    told = simulated("why", "1").stdout
    assert re.search(r"verdict: .*job \d+ .*: idle: ", told)
    assert "ask the job to end" in told
    assert ": busy:" not in told


def test_processes_that_go_on_unwatched_are_told(simulated: Fallow) -> None:
    watched = simulated.start("run", "--idle-timeout", "1h", "--", "sh", "-c", "sleep 600 >/dev/null 2>&1 & exit 6")
    assert watched.stderr is not None
    assert "1 more of the job go on, unwatched" in watched.stderr.readline()
    assert watched.wait(LIMIT_S) == 6


def until_called_off(systemctl: pathlib.Path) -> None:
    """Until terminals were told; the `wall` that told of the countdown may still be on its way."""
    by_s = time.monotonic() + LIMIT_S
    while "called off" not in systemctl.read_text():
        assert time.monotonic() < by_s, systemctl.read_text()
        time.sleep(0.05)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_guard_that_is_ended_in_its_countdown_calls_it_off(
    world: World, fallow: Fallow, systemctl: pathlib.Path, end: signal.Signals
) -> None:
    work(world, 0)
    guard = fallow.start("guard", *GUARD_FAST, "--countdown", "1h", "--action", "shutdown")
    until(guard, "armed")
    rest(world, 0)
    until(guard, "about to turn the machine off")
    guard.send_signal(end)
    guard.communicate(timeout=LIMIT_S)
    assert guard.returncode == -end
    until_called_off(systemctl)
    assert not any(line.startswith("systemctl") for line in systemctl.read_text().splitlines())


def test_a_program_is_found_behind_the_options_of_its_interpreter(
    world: World, fallow: Fallow, systemctl: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    script = tmp_path / f"train-{os.getpid()}.py"
    script.write_text("import time; print('up', flush=True); time.sleep(600)")
    with subprocess.Popen(["python3", "-u", str(script)], stdout=subprocess.PIPE) as training:
        assert training.stdout is not None
        training.stdout.readline()
        work(world, 0)
        guard = fallow.start("guard", *GUARD_FAST, "--unless", f"process:{script.name}", "--action", "shutdown")
        until(guard, "armed")
        rest(world, 0)
        looked = world.calls("nvmlDeviceGetUtilizationRates")
        while world.calls("nvmlDeviceGetUtilizationRates") < looked + 15 * len(world):
            time.sleep(0.01)
        training.kill()
    assert "systemctl" not in systemctl.read_text()


def test_an_argument_that_is_no_text_changes_no_exit_code(simulated: Fallow) -> None:
    odd = os.fsdecode(b"\xff")
    done = simulated("run", "--idle-timeout", "1h", "--", "sh", "-c", "exit 7", odd)
    assert done.returncode == 7, done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("why", "all"), "neither a GPU nor a process"),
        (("why", "user:"), "'user:' names no user"),
        (("protect", "--list", "--for", "1h"), "cannot be combined"),
    ],
)
def test_words_that_do_not_go_together_are_told(simulated: Fallow, words: tuple[str, ...], says: str) -> None:
    done = simulated(*words)
    assert done.returncode == 2
    assert says in done.stderr
