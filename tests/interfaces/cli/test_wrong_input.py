"""Wrong input gets one clear sentence, its exit code and no traceback."""

import json
import os
import pathlib
import subprocess

import pytest

from tests.conftest import Fallow
from tests.places import LIMIT_S
from tests.standin import World


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("pick", "--gpus", "9"), 2, "there is no GPU '9'"),
        (("pick", "--gpus", "0-9"), 2, "there is no GPU 8"),
        (("pick", "--gpus", ""), 2, "there is no GPU ''"),
        (("pick", "-n", "0"), 2, "'0' is not a count"),
        (("pick", "-n", "-1"), 2, "-n"),
        (("pick", "-n", "many"), 2, "'many' is not a count"),
        (("run", "--idle-timeout", "1h", "--idle-below", "0", "--", "true"), 2, "nothing is below 0"),
        (("guard", "--idle-below", "0"), 2, "nothing is below 0"),
        (("pick", "-n", "9"), 2, "9 GPUs wanted, and this machine has 8"),
        (("run", "-n", "9", "--wait", "--", "true"), 2, "9 GPUs wanted, and this machine has 8"),
        (("pick", "-n", "2", "--gpus", "0"), 2, "has 1 among --gpus 0"),
        (("pick", "--name", "B300"), 2, "no GPU named 'B300'"),
        (("pick", "--min-free", "lots"), 2, "'lots' is not a size"),
        (("pick", "--min-free", "-5G"), 2, "--min-free"),
        (("pick", "--max-util", "150"), 2, "per cent"),
        (("pick", "--wait", "soon"), 2, "'soon' is not a duration"),
        (("pick", "--order", "worst"), 2, "--order: 'worst' is not known here; write best, random or index"),
        (("pick", "--format", "xml"), 2, "--format: 'xml' is not known here"),
        (("pick", "--frobnicate"), 2, "there is no option --frobnicate (see: fallow pick --help)"),
        (("pick", "--", "true"), 2, "runs no command"),
        (("pick", "extra"), 2, "'extra' is one word too many; leave it out, or write --gpus extra"),
        (("status", "0", "1", "2"), 2, "'1 2' is 2 words too many; leave them out"),
        (("status", "12"), 2, "there is no GPU '12'"),
        (("status", "--every", "x"), 2, "'x' is not a duration"),
        (("stop", "3", "#", "or", "pid:1234"), 2, "leave out # and what follows; zsh takes comments after: setopt"),
        (("report", "#", "by", "GPU"), 2, "the shell has passed a comment on"),
        (("run",), 2, "no command given"),
        (("run", "--"), 2, "no command given"),
        (("run", "true"), 2, "a command goes behind --; write: fallow run -- true"),
        (
            ("run", "-n", "2", "python3", "x y.py", "--epochs", "3"),
            2,
            "write: fallow run -n 2 -- python3 'x y.py' --epochs 3",
        ),
        (("run", "--name", "python", "python", "train.py"), 2, "fallow run --name python -- python train.py"),
        (("run", "2", "--", "echo", "hi"), 2, "a number of GPUs goes behind -n; write: fallow run -n 2 -- echo hi"),
        (("run", "2", "--wait", "--", "echo", "a b"), 2, "write: fallow run -n 2 --wait -- echo 'a b'"),
        (("run", "2", "echo", "hi"), 2, "write: fallow run -n 2 -- echo hi"),
        (("run", "0,1", "--", "echo", "hi"), 2, "'0,1' is one word too many; leave it out, or write --gpus 0,1"),
        (("run", "python", "--", "x"), 2, "'python' is one word too many; leave it out"),
        (("run", "-n", "2", "--name", "#", "--", "true"), 2, "no GPU named '#'"),
        (
            ("run", "--grace", "10s", "--", "true"),
            2,
            "--grace does nothing without --idle-timeout or --stuck-timeout",
        ),
        (("run", "--dump-stacks", "--", "true"), 2, "--dump-stacks does nothing without --idle-timeout"),
        (("run", "--warmup", "1s", "--stuck-timeout", "1h", "--", "true"), 2, "nothing without --idle-timeout; add"),
        (("run", "--every", "5s", "--", "true"), 2, "--every does nothing without --idle-timeout or --stuck-timeout"),
        (("run", "--", "/no/such/thing"), 127, "there is no command '/no/such/thing'; see whether its path is right"),
        (
            ("run", "--", "no-such-thing"),
            127,
            "'no-such-thing'; see whether its name is right, or name its whole path",
        ),
        (("run", "--", "/etc/passwd"), 126, "not executable"),
        (("run", "--", "/etc"), 126, "is a folder"),
        (("frobnicate",), 2, "there is no command 'frobnicate'"),
        (("staus",), 2, "there is no command 'staus'; did you mean status?"),
        (("Status",), 2, "there is no command 'Status'; did you mean status?"),
        (("help", "staus"), 2, "there is no command 'staus'; did you mean status?"),
        (("protect", "4999", "--for", "1h"), 2, "there is no GPU '4999' here"),
        (("protect", "3"), 2, "it is not said for how long; write it as: fallow protect 3 --for 2h"),
        (("protect",), 2, "write it as: fallow protect --for 2h"),
        (("protect", "3", "--for", "400d"), 2, "at most a year"),
        (("up", "--listen", "127.0.0.1:99999"), 2, "the port of '127.0.0.1:99999' is not a number"),
        (("run", "--idle-timeout", "0s", "--", "true"), 2, "--idle-timeout 0 leaves no time for a warning"),
        (("run", "--idle-timout", "30m", "--", "true"), 2, "no option --idle-timout; did you mean --idle-timeout?"),
        (("status", "--jsn"), 2, "there is no option --jsn; did you mean --json?"),
        (("pick", "--gpu=3"), 2, "there is no option --gpu; did you mean --gpus?"),
        (("status", "0-"), 2, "there is no GPU '0-' here; there are 0, 1, 2, 3, 4, 5, 6, 7; a range is written 0-3"),
        (
            ("protect", "0,1", "--for", "1h"),
            2,
            "is not one GPU that can be named; name one at a time, or protect all",
        ),
        (("why", "0,1"), 2, "'0,1' is not one GPU that can be named; name one at a time\n"),
        (("why", "zork:1"), 2, "'zork:1' names nothing; write a GPU, pid:PID, user:NAME, or of a cluster slurm:ID"),
        (("status", "3-1"), 2, "'3-1' runs backwards; write it as 1-3"),
        (("report", "--since", "7"), 2, "write 7s, 7m, 7h or 7d"),
        (("-v",), 2, "no command given"),
        (("--json", "status"), 2, "there is no option --json; an option of a command goes behind its name"),
        (("compat",), 2, "NAME is missing; there are gpu_idle_timeout, gpu_mon, gpu_sentinel, gpu_stress, gpuselect"),
        (("status", "--log-format", "xml"), 2, "xml"),
    ],
)
def test_wrong_words_are_answered_in_one_sentence(
    world: World, fallow: Fallow, words: tuple[str, ...], code: int, says: str
) -> None:
    done = fallow(*words)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert says in done.stderr
    assert done.stderr.startswith("fallow: ")
    assert done.stderr.count("\n") == 1, done.stderr


def test_no_driver_is_told_with_the_way_to_try_without(driverless: Fallow) -> None:
    for words in (("status",), ("pick",), ("run", "--", "true")):
        done = driverless(*words)
        assert done.returncode == 69
        assert "no NVIDIA driver here" in done.stderr
        assert "--simulate" in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "says"),
    [(9, "not loaded"), (18, "different versions"), (4, "does not let this user in"), (999, "does not start")],
)
def test_a_driver_that_does_not_start_is_told_by_its_reason(
    world: World, fallow: Fallow, error: int, says: str
) -> None:
    world.init_error = error
    done = fallow("status")
    assert done.returncode == 69
    assert says in done.stderr


def test_a_variable_that_is_no_duration_is_named(simulated: Fallow) -> None:
    done = simulated("status", FALLOW_DAEMON_TIMEOUT="soon")
    assert done.returncode == 2
    assert "fallow: FALLOW_DAEMON_TIMEOUT: 'soon' is not a duration; write it as " in done.stderr


def test_a_simulated_machine_that_cannot_be_is_told(fallow: Fallow) -> None:
    done = fallow("status", "--simulate=4xBANANA")
    assert done.returncode == 2
    assert "8xH100" in done.stderr


def test_a_timeout_for_the_driver_that_is_none_is_told(world: World, fallow: Fallow) -> None:
    assert fallow("status", FALLOW_DRIVER_TIMEOUT="often").returncode == 2
    assert fallow("status", FALLOW_DRIVER_TIMEOUT="0").returncode == 2


def test_a_timeout_for_the_daemon_that_is_none_is_told(simulated: Fallow) -> None:
    assert simulated("status", FALLOW_DAEMON_TIMEOUT="often").returncode == 2
    done = simulated("status", FALLOW_DAEMON_TIMEOUT="0s")
    assert (done.returncode, "FALLOW_DAEMON_TIMEOUT=0s leaves the daemon no time" in done.stderr) == (2, True)


def test_a_claim_folder_that_is_a_link_is_refused(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "claims").symlink_to("real")
    for words in (("pick",), ("run", "--", "true")):
        done = simulated(*words)
        assert done.returncode == 77
        assert "symbolic link" in done.stderr
        assert done.stderr.count("\n") == 1
    assert simulated("status").returncode == 0, "looking needs no claims"


def test_a_script_without_an_interpreter_line_is_told(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    script = tmp_path / "job"
    script.write_text("echo hello\n")
    script.chmod(0o755)
    done = simulated("run", "--", str(script))
    assert done.returncode == 126
    assert "#!" in done.stderr
    script.write_text("#!/no/such/interpreter\n")
    assert simulated("run", "--", str(script)).returncode == 126


def test_a_command_that_is_not_there_is_told_before_anybody_waits(simulated: Fallow) -> None:
    job = simulated.start("run", "-n", "4", "--", "sh", "-c", "echo up; read line")
    assert job.stdout is not None
    job.stdout.readline()
    assert simulated("run", "--wait", "--", "no-such-thing").returncode == 127
    job.communicate("\n", timeout=LIMIT_S)


def test_whoever_stops_reading_our_output_gets_no_traceback(simulated: Fallow) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        ["fallow", "status", "--json"],
        env=simulated.environ,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert done.returncode == 141
    assert done.stderr == ""


def test_messages_can_be_json_lines(simulated: Fallow) -> None:
    done = simulated("--log-format", "json", "run", "--", "no-such-thing")
    line = json.loads(done.stderr)
    assert line["level"] == "error"
    assert "no-such-thing" in line["message"]


@pytest.mark.parametrize("option", [("--log-format=json",), ("--log-format", "json")])
def test_an_option_of_the_users_command_does_not_change_the_messages(
    simulated: Fallow, option: tuple[str, ...]
) -> None:
    done = simulated("run", "--", "no-such-thing", *option)
    assert done.stderr.startswith("fallow: ")
