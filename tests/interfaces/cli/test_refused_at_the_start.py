"""What could never work is refused when it starts, in the same words, whichever face it was asked through."""

import getpass
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.actuators.claims.test_users import ADA, BOB, Users
from tests.conftest import Fallow
from tests.places import LIMIT_S, REPOSITORY

pytestmark = pytest.mark.more

NO_APPRISE = "a notice to ntfy://… needs apprise, which is not installed; run: {python} -m pip install apprise"
UNKNOWN = "no notice can be sent to pigeon://…: Apprise does not know the address"
NO_COMMAND = "there is no command 'no-such-thing' to run"
NO_LINE = "a command to run is no line that a shell can read: "
NO_POWER = "cannot turn the machine off: there is neither systemctl nor shutdown on the PATH"
NO_STACKS = "writing a job's stacks needs py-spy, which is not installed; run: {python} -m pip install py-spy"


class Bare:
    """fallow by an interpreter beside which nothing is installed, and on a PATH with little on it."""

    def __init__(self, fallow: Fallow, folder: pathlib.Path) -> None:
        self.python = folder / "bin" / "python"
        self.python.parent.mkdir()
        self.python.symlink_to(sys.executable)
        home = pathlib.Path(sys.prefix)
        (folder / "pyvenv.cfg").write_text((home / "pyvenv.cfg").read_text())
        packages = next(path for path in sys.path if path.endswith("site-packages"))
        (self.python.parent / "sh").symlink_to("/bin/sh")
        self.environ = {
            **fallow.environ,
            "PATH": str(self.python.parent),
            "PYTHONPATH": f"{REPOSITORY / 'src'}:{packages}",
        }

    def without_apprise(self, folder: pathlib.Path) -> None:
        (folder / "apprise").mkdir()
        (folder / "apprise" / "__init__.py").write_text("raise ImportError('as if it were not there')\n")
        self.environ["PYTHONPATH"] = f"{folder}:{self.environ['PYTHONPATH']}"

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.python), "-m", "fallow", *words],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )


@pytest.fixture
def bare(simulated: Fallow, tmp_path: pathlib.Path) -> Bare:
    made = Bare(simulated, tmp_path)
    made.without_apprise(tmp_path)
    return made


def as_guard(bare: Bare, action: str, tmp_path: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return bare("guard", "--action", action)


def as_config(bare: Bare, action: str, tmp_path: pathlib.Path, *verb: str) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "fallow.toml"
    file.write_text(f"[[guard]]\nname = 'g'\nuser = '{getpass.getuser()}'\naction = '''{action}'''\n")
    file.chmod(0o600)
    return bare(*verb, str(file))


FACES: dict[str, Callable[[Bare, str, pathlib.Path], subprocess.CompletedProcess[str]]] = {
    "guard": as_guard,
    "check": lambda *given: as_config(*given, "check"),
    "up": lambda *given: as_config(*given, "up", "--config"),
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    ("action", "says", "code"),
    [
        ("notify:ntfy://my-topic", NO_APPRISE, 69),
        ("run:no-such-thing --now", NO_COMMAND, 127),
        ("run:if true; then", NO_LINE, 2),
        ("shutdown", NO_POWER, 77),
    ],
)
def test_an_action_that_cannot_work_is_refused_in_the_same_words_everywhere(
    bare: Bare, tmp_path: pathlib.Path, face: str, action: str, says: str, code: int
) -> None:
    """F3"""
    done = FACES[face](bare, action, tmp_path)
    assert says.format(python=bare.python) in done.stderr + done.stdout
    assert done.returncode == (78 if face in ("check", "up") else code)


def test_an_address_that_apprise_does_not_know_is_refused_everywhere(
    simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    """F3"""
    file = tmp_path / "fallow.toml"
    file.write_text(
        "[notices]\nurls = ['pigeon://user:secret@roof']\n[[guard]]\nname = 'g'\naction = 'notify:pigeon://x'\n"
    )
    file.chmod(0o600)
    for words in (
        ("guard", "--action", "notify:pigeon://user:secret@roof"),
        ("check", str(file)),
        ("up", "--config", str(file)),
    ):
        done = simulated(*words)
        config = words[0] in ("check", "up")
        assert done.returncode == (78 if config else 2), done.stderr
        said = done.stderr + done.stdout
        assert said.count(UNKNOWN) == (2 if config else 1)
        assert "secret" not in said


def test_without_apprise_a_plain_web_address_still_works(bare: Bare, tmp_path: pathlib.Path) -> None:
    done = as_config(bare, "notify:http://127.0.0.1:1/", tmp_path, "check")
    assert done.returncode == 0, done.stderr


def test_stacks_that_cannot_be_written_are_refused_everywhere(bare: Bare, tmp_path: pathlib.Path) -> None:
    """F3"""
    file = tmp_path / "fallow.toml"
    file.write_text("[[idle]]\nname = 'r'\nidle_for = '1h'\nact = true\ndump_stacks = true\n")
    file.chmod(0o600)
    run = bare("run", "--idle-timeout", "1h", "--dump-stacks", "--", "/bin/true")
    check = bare("check", str(file))
    up = bare("up", "--config", str(file))
    assert (run.returncode, check.returncode, up.returncode) == (69, 78, 78)
    for done in (run, check, up):
        assert NO_STACKS.format(python=bare.python) in done.stderr + done.stdout


def test_looking_whether_a_line_can_be_run_runs_nothing(bare: Bare, tmp_path: pathlib.Path) -> None:
    done = as_config(bare, f"run:touch {tmp_path}/done; echo $(touch {tmp_path}/too)", tmp_path, "check")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "done").exists()
    assert not (tmp_path / "too").exists()


@pytest.mark.parametrize(
    "line", ["cd /tmp && ls", "if true; then ls; fi", "X=1 no-such", "$CMD x", "(ls)", "{ ls; }"]
)
def test_a_line_that_only_a_shell_can_judge_is_left_to_it(bare: Bare, tmp_path: pathlib.Path, line: str) -> None:
    assert as_config(bare, f"run:{line}", tmp_path, "check").returncode == 0


@pytest.mark.as_root
def test_somebody_else_s_process_cannot_be_attached_to(
    open_folder: pathlib.Path, sleeper_of: Callable[[int], subprocess.Popen[bytes]]
) -> None:
    """F3: no right to signal."""
    open_folder.chmod(0o1777)
    users = Users(open_folder)
    users.environ["FALLOW_STATE_DIR"] = str(open_folder / "state")
    named = sleeper_of(BOB)
    code, _, err = users.run(ADA, "guard", "--attach", str(named.pid), "--action", "signal")
    assert code == 77
    assert f"pid {named.pid} is {BOB}'s, and signalling it needs root" in err


@pytest.fixture
def sleeper_of():  # noqa: ANN201
    started: list[subprocess.Popen[bytes]] = []

    def start(uid: int) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "600"], user=uid, group=uid, extra_groups=[]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait(LIMIT_S)
