"""Wrong input gets one clear sentence, its exit code and no traceback; what people type means what they expect."""

import json
import pathlib
from collections.abc import Mapping

import pytest

from tests.conftest import Fallow
from tests.harness import cli
from tests.places import LIMIT_S
from tests.standin import World


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment of a user of 8 simulated GPUs."""
    return {**Fallow(tmp_path_factory.mktemp("home")).environ, "FALLOW_SIMULATE": "8xH100"}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("pick --gpus 9", 2, "there is no GPU '9'"),
        ("pick -n 0", 2, "'0' is not a count"),
        ("pick -n 9", 2, "9 GPUs wanted, and this machine has 8"),
        ("pick -n 2 --gpus 0", 2, "has 1 among --gpus 0"),
        ("pick --name B300", 2, "no GPU named 'B300'"),
        ("pick --min-free lots", 2, "'lots' is not a size"),
        ("pick --min-free 40", 2, "write 40GiB, 40MiB or 40B"),
        ("pick --max-util 150", 2, "per cent"),
        ("pick --order worst", 2, "--order: 'worst' is not known here; write best, random or index"),
        ("pick --order indx", 2, "did you mean index?"),
        ("pick --frobnicate", 2, "there is no option --frobnicate (see: fallow pick --help)"),
        ("pick --json", 2, "there is no option --json; write --format json (see: fallow pick --help)"),
        ("pick -- true", 2, "runs no command"),
        ("pick extra", 2, "'extra' is one word too many; leave it out, or write --gpus extra"),
        ("status --jsn", 2, "there is no option --jsn; did you mean --json?"),
        ("status --watch=x", 2, "'x' is not a duration"),
        ("status 0-", 2, "there is no GPU '0-' here; there are 0, 1, 2, 3, 4, 5, 6, 7; a range is written 0-3"),
        ("status 3-1", 2, "'3-1' runs backwards; write it as 1-3"),
        ("status ²", 2, "there is no GPU '²'"),
        ("status 0-99999999999", 2, "there is no GPU"),
        ("status --simulate=4xBANANA", 2, "8xH100"),
        ("status --simulate=600xH100", 2, "'600xH100' is not a simulated machine; write 8xH100"),
        ("status --log-format xml", 2, "xml"),
        ("stop 3 # or pid:1234", 2, "leave out # and what follows; zsh takes comments after: setopt"),
        ("run", 2, "no command given"),
        ("run true", 2, "a command goes behind --; write: fallow run -- true"),
        ("run --name python python train.py", 2, "fallow run --name python -- python train.py"),
        ("run 2 -- echo hi", 2, "a number of GPUs goes behind -n; write: fallow run -n 2 -- echo hi"),
        ("run --idle-timeout 30 -- true", 2, "write 30s, 30m, 30h or 30d"),
        ("run --idle-timeout 0s -- true", 2, "--idle-timeout 0 leaves no time for a warning"),
        ("run --idle-timeout 1h --idle-below 0 -- true", 2, "nothing is below 0"),
        ("run --idle-timout 30m -- true", 2, "no option --idle-timout; did you mean --idle-timeout?"),
        ("run --grace 10s -- true", 2, "--grace does nothing without --idle-timeout or --stuck-timeout"),
        ("run --signal TREM -- true", 2, "did you mean TERM?"),
        ("run --idle-timeout 1s --unless cpu -- true", 2, "write cpu:50"),
        ("run --idle-timeout 4s --warn-signal KILL -- true", 2, "no process can catch SIGKILL"),
        ("run --idle-timeout 4s --warn-signal TERM -- true", 2, "--warn-signal TERM already asks the job to end"),
        ("run -- /no/such/thing", 127, "there is no command '/no/such/thing'; see whether its path is right"),
        ("run -- /etc/passwd", 126, "not executable"),
        ("run --min-free 100GiB --wait -- true", 2, "no GPU with 100 GiB of memory"),
        ("burn --memory 0", 2, "0 per cent of the memory is nothing to hold"),
        ("burn --load foo", 2, "'foo' is not known here"),
        ("guard --action shutdwn", 2, "did you mean shutdown?"),
        ("guard --unless usrs", 2, "did you mean users?"),
        ("guard --action notify:pigeon://user:secret@roof", 2, "pigeon://…: Apprise does not know the address"),
        ("fill", 2, "fill needs a command"),
        ("fill -- no-such-command", 127, "there is no command 'no-such-command'"),
        ("fill --cwd /no/such -- true", 126, "/no/such is not a folder"),
        ("fill --between 25:00-26:00 -- true", 2, "is not a range of hours"),
        ("fill --each --together -- true", 2, "--together cannot be given together with --each"),
        ("fill --ignore-user nobdy -- true", 2, "there is no user 'nobdy' on this machine; did you mean nobody?"),
        ("protect 3", 2, "it is not said for how long; write it as: fallow protect 3 --for 2h"),
        ("protect 3 --for 400d", 2, "at most a year"),
        ("protect 0,1 --for 1h", 2, "is not one GPU that can be named; name one at a time, or all"),
        ("protect usr:ada --for 1h", 2, "did you mean user?"),
        ("protect --list --for 1h", 2, "cannot be combined"),
        ("why zork:1", 2, "'zork:1' names nothing; write a GPU, pid:PID, user:NAME, mine, or of a cluster slurm:ID"),
        ("why user:", 2, "'user:' names nothing"),
        ("report --since 7", 2, "write 7s, 7m, 7h or 7d"),
        ("report --price -1/h", 2, "'-1/h' is not a price"),
        ("up --listen 127.0.0.1:99999", 2, "the port of '127.0.0.1:99999' is not a number"),
        ("up --reload --dry-run", 2, "--reload takes no other option"),
        ("compat gpu_select", 2, "did you mean gpuselect?"),
        ("staus", 2, "there is no command 'staus'; did you mean status?"),
        ("help staus", 2, "there is no command 'staus'; did you mean status?"),
        ("--json status", 2, "there is no option --json; an option of a command goes behind its name"),
        ("-v", 2, "no command given"),
    ],
)
def test_wrong_words_are_answered_in_one_sentence(eight: Mapping[str, str], words: str, code: int, says: str) -> None:
    came, out, err = cli(*words.split(), environ=eight)
    assert (came, out) == (code, ""), err
    assert says in err
    assert err.startswith("fallow: ")
    assert err.count("\n") == 1, err
    assert "secret" not in err


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("pick --gpus 2,3", "2,3"),
        ("pick --gpus 0-2", "0,1,2"),
        ("pick --gpus GPU-fa110000-0000-4000-8000-000000000003,0", "0,3"),
        ("pick -n 1 --gpus 2,3 --order index", "2"),
    ],
)
def test_a_list_of_gpus_means_all_of_them_and_with_a_count_what_to_choose_among(
    eight: Mapping[str, str], words: str, given: str
) -> None:
    assert cli(*words.split(), environ=eight) == (0, f"{given}\n", "")


@pytest.mark.parametrize(
    ("variable", "says"),
    [
        ("FALLOW_DAEMON_TIMEOUT=soon", "FALLOW_DAEMON_TIMEOUT: 'soon' is not a duration"),
        ("FALLOW_DAEMON_TIMEOUT=0s", "leaves the daemon no time"),
        ("FALLOW_DRIVER_TIMEOUT=often", "FALLOW_DRIVER_TIMEOUT"),
    ],
)
def test_a_variable_that_makes_no_sense_is_named(world: World, fallow: Fallow, variable: str, says: str) -> None:
    name, _, text = variable.partition("=")
    done = fallow("status", **{name: text})
    assert (done.returncode, done.stdout, says in done.stderr) == (2, "", True), done.stderr


def test_no_driver_is_told_with_the_way_to_try_without(driverless: Fallow) -> None:
    done = driverless("status")
    assert done.returncode == 69
    assert "no NVIDIA driver here" in done.stderr
    assert done.stderr.endswith("; to try fallow without a GPU, add --simulate or set FALLOW_SIMULATE=8xH100\n")


@pytest.mark.parametrize(
    ("error", "says"),
    [(9, "not loaded"), (18, "different versions"), (4, "does not let this user in"), (999, "does not start")],
)
def test_a_driver_that_does_not_start_is_told_by_its_reason(
    world: World, fallow: Fallow, error: int, says: str
) -> None:
    world.fault("nvmlInit", error=error)
    done = fallow("status")
    assert done.returncode == 69
    assert says in done.stderr


def test_a_script_without_an_interpreter_line_is_told(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    script = tmp_path / "job"
    script.write_text("echo hello\n")
    script.chmod(0o755)
    done = simulated("run", "--", str(script))
    assert done.returncode == 126
    assert "#!" in done.stderr


def test_a_command_that_is_not_there_is_told_before_anybody_waits(simulated: Fallow) -> None:
    job = simulated.start("run", "-n", "4", "--", "sh", "-c", "echo up; read line")
    assert job.stdout is not None
    job.stdout.readline()
    assert simulated("run", "--wait", "--", "no-such-thing").returncode == 127
    job.communicate("\n", timeout=LIMIT_S)


def test_messages_are_json_lines_where_fallow_is_asked_for_them(simulated: Fallow) -> None:
    asked = json.loads(simulated("--log-format", "json", "run", "--", "no-such-thing").stderr)
    assert (asked["level"], "no-such-thing" in asked["message"]) == ("error", True)
    assert simulated("run", "--", "no-such-thing", "--log-format=json").stderr.startswith("fallow: ")
