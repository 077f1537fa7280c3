"""Closed and narrow streams, odd values of options, a bare locale, and limits: a sentence, and an exit code."""

import os
import pathlib
import re
import resource
import socket
import subprocess
import sys

import pytest

from fallow.compat import Sentinel, SentinelState
from fallow.interfaces.cli.main import COMMANDS
from tests.actuators.claims.test_users import ADA, Users
from tests.conftest import Fallow
from tests.house.test_documented import options
from tests.interfaces.cli.test_hard_places import in_shell
from tests.places import LIMIT_S, REPOSITORY

pytestmark = pytest.mark.more

NARROW = {"PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


@pytest.mark.parametrize(
    "script",
    [
        "fallow --version >&-",
        "fallow --help >&-",
        "fallow >&-",
        "fallow status --help >&-",
        "fallow --version >/dev/full",
        "fallow status --help >/dev/full",
        "fallow compat gpuselect >&-",
        "fallow compat gpuselect --help >&-",
    ],
)
def test_a_result_that_could_not_be_written_is_no_success(simulated: Fallow, script: str) -> None:
    """F33"""
    done = in_shell(simulated, script)
    assert done.returncode == 125
    assert "the result cannot be printed" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("print('x' * 10)", "cannot print"),
        ("print('x' * 100_000)", "cannot print"),
        ("open('/dev/full', 'w').write('x' * 100_000)", "another file"),
    ],
)
def test_only_a_failure_of_printing_is_called_so(script: str, says: str) -> None:
    program = f"""
import os
from fallow.interfaces.cli import streams
streams.prepare()
try:
    {script}
    streams.flush()
except streams.CannotPrint:
    os.write(2, b"cannot print")
except OSError:
    os.write(2, b"another file")
os._exit(0)
"""
    with open("/dev/full", "wb") as full:
        words = [sys.executable, "-c", program]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S, check=False)
    assert done.stderr == says


def test_who_prints_nothing_needs_no_output(simulated: Fallow) -> None:
    assert in_shell(simulated, "fallow compat gpuselect --quiet >&-").returncode == 0


# F33
@pytest.mark.parametrize("given", [{}, {"LC_CTYPE": "C"}, {"LC_CTYPE": "C.UTF-8"}, {"LC_ALL": "C"}])
@pytest.mark.parametrize("watched", [(), ("--idle-timeout", "1h")])
def test_a_job_gets_the_locale_that_its_launcher_was_given(
    simulated: Fallow, given: dict[str, str], watched: tuple[str, ...]
) -> None:
    del simulated.environ["LANG"]
    done = simulated("run", *watched, "--", "env", LANG="C", **given)
    assert done.returncode == 0, done.stderr
    its = dict(line.split("=", 1) for line in done.stdout.splitlines() if line.startswith("LC_"))
    assert its == given


def test_a_filler_gets_the_locale_that_its_owner_was_given(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    """F33"""
    del simulated.environ["LANG"]
    shown = tmp_path / "environment"
    os.mkfifo(shown)
    simulated.start("fill", "--idle-for", "0s", "--gpus", "0", "--", "sh", "-c", f"env > {shown}; sleep 60", LANG="C")
    assert "LC_CTYPE" not in shown.read_text()


@pytest.mark.parametrize("verb", COMMANDS)
def test_two_dashes_are_no_value_of_any_option(simulated: Fallow, verb: str) -> None:
    """F37"""
    if verb == "compat":
        return  # its words are the tool's: the next test
    words = [f"{name}=--" if name.startswith("--") else f"{name}--" for name in options(verb)]
    each = "import sys; from fallow.interfaces.cli.main import main; verb, *words = sys.argv[1:]"
    each += "; print(*[main([verb, word]) for word in words])"
    done = simulated.start_other(sys.executable, "-c", each, verb, *words)  # one program for all of them
    codes, said = done.communicate(timeout=LIMIT_S)
    assert dict(zip(words, codes.split(), strict=True)) == dict.fromkeys(words, "2"), said
    assert said.count("\n") == len(words)


@pytest.mark.parametrize(
    "words",
    [
        ("gpuselect", "--count=--"),
        ("gpuselect", "--devices=--"),
        ("gpu_sentinel", "--arm_duration=--"),
        ("gpu_idle_timeout", "--threshold=--", "true"),
        ("gpu_mon", "--config=--"),
    ],
)
def test_two_dashes_are_no_value_for_the_older_tools_either(simulated: Fallow, words: tuple[str, ...]) -> None:
    """F37"""
    done = simulated("compat", *words)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words", [("report",), ("status",), ("--help",), ("run", "--dry-run", "--", "x" * 500 + "é")]
)
def test_an_output_without_our_letters_gets_others(simulated: Fallow, words: tuple[str, ...]) -> None:
    """F38 (report), F27 (status)"""
    if words == ("report",):
        simulated("up", "--for", "300ms")
    done = simulated(*words, **NARROW)
    assert done.returncode in (0, 127), done.stderr
    assert done.stderr.isascii()
    assert done.stdout.isascii()
    assert "internal error" not in done.stderr


def test_a_keeper_whose_owner_was_killed_before_its_first_order_says_nothing(tmp_path: pathlib.Path) -> None:
    """F38"""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = (
        "import os, sys; os.dup2(int(sys.argv[1]), 3); os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
    )
    words = [sys.executable, "-c", program, str(its.fileno()), "-m", "fallow.engine.fill.keeper", "sleep", "60"]
    keeper = subprocess.Popen(words, pass_fds=[its.fileno(), 3], stderr=subprocess.PIPE, text=True)
    its.close()
    ours.close()
    _, said = keeper.communicate(timeout=LIMIT_S)
    assert (said, keeper.returncode) == ("", 0)


@pytest.mark.parametrize(
    ("limit", "names"), [("-n 9", "ulimit -n"), ("-n 14", "ulimit -n"), ("-v 45000", "ulimit -v")]
)
def test_a_limit_that_is_too_tight_is_named(simulated: Fallow, limit: str, names: str) -> None:
    """F38"""
    done = in_shell(simulated, f"ulimit {limit}; fallow up --for 200ms")
    assert done.returncode not in (0, 77), done.stderr
    assert names in done.stderr
    assert "internal error" not in done.stderr


@pytest.mark.parametrize("words", ["FALLOW_STATE_DIR=x fallow why", "FALLOW_SOCKET=x fallow up --for 200ms"])
def test_a_folder_that_is_gone_is_named_where_a_path_begins_in_it(
    simulated: Fallow, tmp_path: pathlib.Path, words: str
) -> None:
    (tmp_path / "gone").mkdir()
    done = in_shell(simulated, f"cd {tmp_path}/gone && rmdir {tmp_path}/gone && {words}")
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr == "fallow: the folder that you are in is gone; change to another one\n"


@pytest.mark.as_root
def test_a_limit_of_processes_that_is_too_tight_is_named(open_folder: pathlib.Path) -> None:
    """F38"""
    open_folder.chmod(0o1777)
    users = Users(open_folder)
    environ = {**users.environ, "FALLOW_STATE_DIR": str(open_folder / "state"), "HOME": str(open_folder)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.as_user", str(ADA), "up", "--for", "200ms"],
        env=environ,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)),
    )
    assert done.returncode == 125, done.stderr
    assert re.search(r"no more processes or threads can be started: the limit is 1 \(ulimit -u", done.stderr)


def test_a_sentinel_without_a_time_to_arm_arms_at_once() -> None:
    """F32, as the older tool does: zero ticks of work are enough, whatever was seen."""
    fired: list[int] = []
    sentinel = Sentinel(0, 0.8, 2, 0.7, lambda: fired.append(1))
    sentinel.tick(0.1)
    assert sentinel.state is SentinelState.ARMED
    for _ in range(5):
        sentinel.tick(0.1)
    assert fired == [1]
