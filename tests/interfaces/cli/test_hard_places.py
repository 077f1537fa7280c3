"""Situations in which fallow once did the wrong thing."""

import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable

import pytest

import fallow as library
from fallow.actuators.files import ofd_locks
from tests.conftest import Fallow
from tests.places import LIMIT_S
from tests.standin import MigInstance, Process, World

pytestmark = pytest.mark.more

GIB = 2**30


def held(fallow: Fallow, *words: str) -> subprocess.Popen[str]:
    job = fallow.start("run", *words, "--", "sh", "-c", "echo up; read line")
    assert job.stdout is not None
    assert job.stdout.readline() == "up\n"
    return job


def test_a_launch_that_no_card_could_ever_serve_does_not_stand_in_line(simulated: Fallow) -> None:
    done = simulated("run", "--min-free", "100GiB", "--wait", "--", "true")
    assert done.returncode == 2
    assert "no GPU with 100 GiB of memory" in done.stderr


def test_locks_in_the_line_that_no_launch_has_placed_are_nobody_who_waits(simulated: Fallow) -> None:
    """Any user can lock any byte: 128 launches that are none waited for each GPU, in status and in the metrics."""
    assert simulated("run", "--gpus", "0", "--", "true").returncode == 0  # its file is there from then on
    (path,) = pathlib.Path(simulated.environ["FALLOW_CLAIM_DIR"]).glob("GPU-*0")
    with path.open("r+b") as theirs:
        for place in range(300):
            ofd_locks.take(theirs.fileno(), time.monotonic_ns() - 10**6 - 2 * place)
        assert json.loads(simulated("status", "--json", "0").stdout)["gpus"][0]["waiting"] == 0


def test_a_launch_that_needs_a_lost_card_does_not_shut_the_others_out(world: World, fallow: Fallow) -> None:
    world.fault("*", card=3, error=15)
    done = fallow("run", "-n", "8", "--wait", "--", "true")
    assert done.returncode == 75
    assert "GPU 3: the GPU is lost" in done.stderr


def test_the_line_is_visible_and_who_is_stopped_in_it_keeps_nobody_waiting(simulated: Fallow) -> None:
    job = held(simulated, "--gpus", "0")
    waiting = simulated.start("run", "--gpus", "0", "--wait", "--", "echo", "mine")
    assert waiting.stderr is not None
    waiting.stderr.readline()
    gpu = json.loads(simulated("status", "--json", "0").stdout)["gpus"][0]
    assert gpu["waiting"] == 1
    assert "1 waiting for it" in simulated("status", "-l", "0").stdout
    waiting.send_signal(signal.SIGSTOP)
    job.communicate("\n", timeout=LIMIT_S)
    assert simulated("run", "--gpus", "0", "--", "true").returncode == 0
    waiting.send_signal(signal.SIGCONT)
    assert waiting.communicate(timeout=LIMIT_S)[0] == "mine\n"


def test_a_shared_card_is_judged_by_its_last_seconds_and_not_by_an_instant(
    make_world: Callable[..., World], fallow: Fallow
) -> None:
    import time

    world = make_world(cards=1)
    card = world[0]
    card.compute, card.memory_used = [Process(os.getpid(), GIB)], GIB
    now_us = int(time.time() * 1e6)
    card.samples = [(now_us - 200_000 * age, 60) for age in range(60, 0, -1)]
    assert fallow("pick", "--max-processes", "1").returncode == 75
    world.fault("nvmlDeviceGetSamples", card=0, error=999)
    world.fault("nvmlDeviceGetProcessUtilization", card=0, error=999)
    unknown = fallow("pick", "--max-processes", "1")
    assert unknown.returncode == 75
    assert "Unknown Error" in unknown.stderr


def test_a_card_that_appears_while_somebody_waits_is_given_to_them(
    make_world: Callable[..., World], fallow: Fallow
) -> None:
    world = make_world(cards=2)
    world[0].compute, world[0].memory_used = [Process(os.getpid(), GIB)], GIB
    world.fault("nvmlDeviceGetUUID", card=1, error=999)
    waiting = fallow.start("run", "--wait", "60s", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert waiting.stderr is not None
    assert "waiting" in waiting.stderr.readline()
    world.heal()
    assert waiting.communicate(timeout=LIMIT_S)[0] == f"{world[1].uuid}\n"


def test_instances_that_are_made_while_somebody_waits_are_given_to_them(
    make_world: Callable[..., World], fallow: Fallow
) -> None:
    world = make_world(cards=1)
    world[0].mig = [MigInstance(uuid="MIG-aaaa", memory_used=GIB, processes=[Process(os.getpid(), GIB)])]
    waiting = fallow.start("run", "--wait", "60s", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert waiting.stderr is not None
    assert "waiting" in waiting.stderr.readline()
    world[0].mig = [MigInstance(uuid="MIG-bbbb")]
    assert waiting.communicate(timeout=LIMIT_S)[0] == "MIG-bbbb\n"


def test_a_forked_child_that_leaves_the_block_does_not_end_the_claim_of_its_parent(fallow: Fallow) -> None:
    program = textwrap.dedent("""
        import fallow, os, sys
        with fallow.claim(simulate="1xH100"):
            if os.fork() == 0:
                sys.exit(0)
            os.wait()
            print("up", flush=True)
            sys.stdin.read()
    """)
    words = [sys.executable, "-c", program]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=fallow.environ, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        assert fallow("pick", "--simulate=1xH100").returncode == 75
        process.kill()


def test_what_a_killed_launcher_left_behind_keeps_its_card(make_world: Callable[..., World], fallow: Fallow) -> None:
    """Python's subprocess closes the claim in its children; the card is theirs all the same, context or not."""
    make_world(cards=1)
    program = "import subprocess; subprocess.run(['sh', '-c', 'echo $$; exec sleep 600'])"
    launcher = fallow.start("run", "--", "python", "-c", program)
    assert launcher.stdout is not None
    child = int(launcher.stdout.readline())
    launcher.kill()
    launcher.wait(LIMIT_S)
    refused = fallow("run", "--", "true")
    assert refused.returncode == 75
    assert f"pid {child} of an earlier launch still runs" in refused.stderr
    waiting = fallow.start("run", "--wait", "--", "echo", "mine")
    assert waiting.stderr is not None
    waiting.stderr.readline()
    pidfd = os.pidfd_open(child)
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    os.close(pidfd)
    assert waiting.communicate(timeout=LIMIT_S)[0] == "mine\n"


@pytest.mark.parametrize(
    "label",
    [
        b"[" * 4096,
        b'{"pid": 1, "since": 1e999}',
        b'{"pid": 1, "since": NaN}',
        b'{"pid": 1, "user": "\\ud800", "command": "x"}',
        b'{"pid": 1, "user": "ada\\n GPU 9: fake", "command": "\\u001b[2Jevil"}',
    ],
    ids=["deep", "never", "nan", "surrogate", "escape"],
)
def test_a_label_that_somebody_forged_breaks_and_deceives_nobody(simulated: Fallow, label: bytes) -> None:
    job = held(simulated, "--gpus", "0")
    card = pathlib.Path(simulated.environ["FALLOW_CLAIM_DIR"]) / "GPU-fa110000-0000-4000-8000-000000000000"
    with open(card, "r+b") as file:
        file.write(label.ljust(4096)[:4096])
    for words in (("status",), ("status", "--json"), ("pick", "-n", "4"), ("run", "-n", "4", "--", "true")):
        done = simulated(*words, PYTHONIOENCODING="utf-8:strict")
        assert done.returncode in (0, 75), done.stderr
        assert "\x1b" not in done.stdout + done.stderr
        assert not re.search(r"^ ?GPU 9", done.stdout + done.stderr, re.MULTILINE)
    job.communicate("\n", timeout=LIMIT_S)


def test_a_command_line_that_is_no_text_breaks_nobody(simulated: Fallow) -> None:
    job = simulated.start("run", "--", "sh", "-c", "echo up; read line", os.fsdecode(b"\xff\x1b[2J\n"))
    assert job.stdout is not None
    job.stdout.readline()
    done = simulated("status", PYTHONIOENCODING="utf-8:strict")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    job.communicate("\n", timeout=LIMIT_S)


@pytest.mark.parametrize("value", ["²", "1²", "0-99999999999", "9" * 400])
def test_odd_digits_and_endless_ranges_are_no_gpus(simulated: Fallow, value: str) -> None:
    assert simulated("status", value).returncode == 2
    assert simulated("pick", "--gpus", value).returncode == 2
    assert simulated("pick", CUDA_VISIBLE_DEVICES=value).returncode == 75
    with subprocess.Popen(["sleep", "600"], env=simulated.on(value)) as other:
        assert simulated("status").returncode == 0
        other.kill()


def test_a_thousand_locks_that_are_nobodys_place_keep_nobody_waiting(simulated: Fallow) -> None:
    job = held(simulated, "--gpus", "0")
    folder = pathlib.Path(simulated.environ["FALLOW_CLAIM_DIR"])
    fd = os.open(folder / "GPU-fa110000-0000-4000-8000-000000000000", os.O_RDWR)
    for place in range(1200):
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("@hhqqi4x", fcntl.F_WRLCK, 0, 2 * place, 1, 0))
    done = simulated("run", "--gpus", "0", "--wait", "200ms", "--", "true")
    assert done.returncode == 75
    assert "after waiting 0.2s" in done.stderr
    assert " ahead" not in done.stderr
    os.close(fd)
    job.communicate("\n", timeout=LIMIT_S)


def test_ctrl_c_stops_the_script_around_us_too(simulated: Fallow) -> None:
    job = held(simulated, "-n", "4")
    script = "for i in 1 2 3; do fallow run --wait -- true; echo went on; done; echo reached the end"
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        ["bash", "-c", script],
        env=simulated.environ,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=_lead,  # noqa: PLW1509
    )
    os.close(theirs)
    said = b""
    while b"waiting" not in said:
        said += os.read(ours, 1000)
    os.write(ours, b"\x03")
    shell.wait(LIMIT_S)
    os.close(ours)
    assert shell.returncode == -signal.SIGINT
    job.communicate("\n", timeout=LIMIT_S)


def _lead() -> None:
    os.setsid()
    fcntl.ioctl(0, 0x540E, 0)  # TIOCSCTTY: the pty is our terminal


def test_the_functions_answer_nonsense_with_their_own_errors(fallow: Fallow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FALLOW_CLAIM_DIR", fallow.environ["FALLOW_CLAIM_DIR"])
    nonsense: list[dict[str, object]] = [
        {"n": -1},
        {"n": 0},
        {"n": "2"},
        {"n": 1.5},
        {"order": "x"},
        {"max_util": 50},
    ]
    for words in nonsense:
        with pytest.raises((TypeError, ValueError)):
            library.pick(**words, simulate="4xH100")  # type: ignore[arg-type]
    assert [gpu.index for gpu in library.pick(2, gpus=[1, 3], simulate="4xH100")] == [1, 3]
    assert [gpu.index for gpu in library.pick(gpus=2, simulate="4xH100")] == [2]


def test_the_functions_leave_no_descriptor_and_no_thread_behind(
    fallow: Fallow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FALLOW_CLAIM_DIR", fallow.environ["FALLOW_CLAIM_DIR"])

    def use() -> None:
        library.gpus(simulate="2xH100")
        library.pick(simulate="2xH100")
        with library.claim(simulate="2xH100"):
            pass

    use()
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(10):
        use()
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == before


def test_claims_that_cannot_be_read_show_in_the_table(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    (tmp_path / "claims").symlink_to("/nowhere")
    done = simulated("status", COLUMNS="120")
    assert done.returncode == 0
    assert "claim unknown" in done.stdout
    assert "none available, " in done.stdout, "unknown is never idle"
    assert "who has claimed it is unknown" in simulated("status", "-l").stdout


def test_a_claim_folder_that_depends_on_where_one_stands_is_refused(simulated: Fallow) -> None:
    done = simulated("pick", FALLOW_CLAIM_DIR="claims")
    assert done.returncode == 2
    assert "relative" in done.stderr


def test_help_and_version_are_found_wherever_they_are_asked_for(fallow: Fallow) -> None:
    assert "guard" in fallow("-h", "status").stdout
    assert fallow("--version", "status").stdout.startswith("fallow ")
    assert "behind --" in fallow("run", "echo", "hi").stderr
    assert json.loads(fallow("pick", "--log-format", "json", "-n", "0").stderr)["level"] == "error"


def test_one_gpu_is_one_gpu(fallow: Fallow) -> None:
    assert "1 x Tesla T4 (simulated): " in fallow("status", "--simulate=1xT4").stdout


def test_a_burst_of_launches_is_served_and_not_refused(fallow: Fallow) -> None:
    launches = [fallow.start("run", "--", "sh", "-c", "echo up; read x", FALLOW_SIMULATE="24xT4") for _ in range(24)]
    for launch in launches:
        assert launch.stdout is not None
        assert launch.stdout.readline() == "up\n", launch.stderr.read() if launch.stderr else ""
    for launch in launches:
        launch.communicate("\n", timeout=LIMIT_S)
