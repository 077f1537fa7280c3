"""V5: what root's daemon runs, it runs as the user that the config names, and only what nobody else can change."""

import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill, pids_written, wait_for_end, wait_for_lines
from tests.places import LIMIT_S, OFTEN, REPOSITORY
from tests.standin import World
from tests.waiting import end

pytestmark = pytest.mark.as_root

WORKER, NEIGHBOUR = pwd.getpwnam("daemon"), pwd.getpwnam("games")
FACTS = """
id -u; id -g; id -G; umask; pwd
echo "$HOME $USER $LOGNAME $SHELL"
grep -E '^Cap(Inh|Prm|Eff|Amb)' /proc/self/status | cut -f2 | sort -u
echo "$SECRET$SUDO_USER"
ls -l /proc/$$/fd | grep -c /secret
echo "$CUDA_VISIBLE_DEVICES"
"""
Write = Callable[[str], str]
Up = Callable[..., Fill]


@pytest.fixture
def config(simulated: Fallow, tmp_path: pathlib.Path) -> Write:
    """Write a config of root's; its path."""

    def write(text: str) -> str:
        file = tmp_path / "fallow.toml"
        often = "" if "[machine]" in text else OFTEN
        file.write_text(f"[terminals]\nusers = 'ignore'\n[page]\nenabled = false\n{text}{often}")
        return str(file)

    return write


@pytest.fixture
def up(simulated: Fallow, config: Write) -> Up:
    """Start `fallow up` with a config."""
    return lambda text, **variables: Fill(simulated.start("up", "--config", config(text), **variables))


@pytest.fixture
def box(open_folder: pathlib.Path) -> pathlib.Path:
    """A folder of the worker's that everybody may enter."""
    folder = open_folder / "box"
    folder.mkdir(mode=0o755)
    os.chown(folder, WORKER.pw_uid, WORKER.pw_gid)
    return folder


def filler(script: str, more: str = "", user: str | None = WORKER.pw_name) -> str:
    said = "" if user is None else f"user = '{user}'\n"
    return (
        f"[[filler]]\nname = 'work'\n{said}command = ['sh', '-c', '''{script}''']\nidle_for = 0\ngpus = 0\n{more}\n"
    )


def as_neighbour(line: str) -> None:
    """What the neighbour does with a right of her own."""
    ids = [f"--reuid={NEIGHBOUR.pw_uid}", f"--regid={NEIGHBOUR.pw_gid}", "--clear-groups"]
    subprocess.run(["setpriv", *ids, "sh", "-c", line], check=True)


def test_a_filler_runs_as_the_user_with_nothing_of_root(up: Up, box: pathlib.Path, tmp_path: pathlib.Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("")
    with secret.open() as held:
        os.set_inheritable(held.fileno(), True)
        running = up(filler(f"({FACTS}); exec sleep 1000", f"log = '{box}/log'"), SECRET="told", SUDO_USER="x")
        facts = wait_for_lines(box / "log", 10)
    uid, gid, groups, umask, folder, who, capabilities, passed_on, inherited, card = facts
    assert (uid, gid, groups) == (str(WORKER.pw_uid), str(WORKER.pw_gid), str(WORKER.pw_gid))
    assert (umask, folder) == ("0022", "/")
    assert who == f"{WORKER.pw_dir} {WORKER.pw_name} {WORKER.pw_name} {WORKER.pw_shell}"
    assert set(capabilities) == {"0"}
    assert (passed_on, inherited) == ("", "0")
    assert card.startswith("GPU-")
    assert os.stat(box / "log").st_uid == WORKER.pw_uid, "the log is made by whom it is"
    running.process.terminate()


def test_its_keeper_can_signal_it_and_it_leaves_at_once(up: Up, box: pathlib.Path, simulated: Fallow) -> None:
    pids = box / "pids"
    script = f"trap '' TERM; sleep 1000 & echo $! >> {pids}; echo $$ >> {pids}; wait; wait"
    running = up(filler(script, "grace = '0.2s'"))
    wait_for_lines(pids, 2)
    with subprocess.Popen(["sleep", "1000"], env=simulated.on("0")) as newcomer:
        running.until("work: GPU 0: given back after")
        wait_for_end(pids_written(pids))
        newcomer.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_the_daemon_however_that_ends(up: Up, box: pathlib.Path, number: signal.Signals) -> None:
    """Whoever becomes another user loses the word to die with its parent, unless it is given after that."""
    pids = box / "pids"
    running = up(filler(f"(setsid sleep 1000 & echo $! >> {pids}); echo $$ >> {pids}; exec sleep 1000"))
    wait_for_lines(pids, 2)
    running.process.send_signal(number)
    wait_for_end(pids_written(pids))
    running.process.wait(LIMIT_S)


@pytest.mark.more
def test_a_guards_command_runs_as_the_user(up: Up, box: pathlib.Path, simulated: Fallow) -> None:
    facts = box / "facts"
    line = f"run:id -u > {facts}; pwd >> {facts}; echo $HOME >> {facts}; echo $FALLOW_BECAUSE >> {facts}"
    guard = "arm_for = '1s'\nidle_for = '1s'\ncountdown = 0\ngpus = 1"
    text = f"[machine]\nevery = '0.5s'\n[[guard]]\nname = 'evening'\nuser = '{WORKER.pw_name}'\n{guard}\n"
    running = up(text + f"action = '''{line}'''\n")
    with subprocess.Popen(["sh", "-c", "while :; do :; done"], env=simulated.on("1")) as work:
        running.until("evening: armed")
        work.kill()
    uid, folder, home, because = wait_for_lines(facts, 4)
    assert (uid, folder, home) == (str(WORKER.pw_uid), "/", WORKER.pw_dir)
    assert because


@pytest.mark.parametrize(
    "text",
    [
        "[[filler]]\nname = 'work'\ncommand = 'sleep 1'\n",
        "[[guard]]\nname = 'evening'\naction = 'run:true'\n",
    ],
    ids=["filler", "guard"],
)
def test_root_runs_nothing_as_root_unless_it_is_said_aloud(simulated: Fallow, config: Write, text: str) -> None:
    for words in (("check",), ("up", "--config")):
        done = simulated(*words, config(text))
        assert done.returncode == 78
        assert "it does not say whom it runs as" in done.stdout + done.stderr
        assert 'add user = "NAME", or user = "root" if it shall be root' in done.stdout + done.stderr
    assert simulated("check", config(f"{text}user = 'root'\n")).returncode == 0


def test_a_user_who_cannot_be_had_is_refused(simulated: Fallow, config: Write) -> None:
    done = simulated("check", config(filler("true", user="nobdy")))
    assert (done.returncode, "there is no user 'nobdy' on this machine (did you mean nobody?)" in done.stdout) == (
        78,
        True,
    )


def test_an_ordinary_daemon_becomes_nobody_else(open_folder: pathlib.Path) -> None:
    file = open_folder / "fallow.toml"
    file.write_text(filler("true", user="root"))
    line = [sys.executable, "-m", "tests.as_user", str(NEIGHBOUR.pw_uid), "check", str(file)]
    environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY), "FALLOW_SIMULATE": "4xH100"}
    done = subprocess.run(line, env=environ, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, "only root can run it as root" in done.stdout) == (78, True)


@pytest.mark.more
def test_a_log_is_never_written_through_a_neighbours_link(
    up: Up, simulated: Fallow, open_folder: pathlib.Path, config: Write
) -> None:
    """The filler is not let in."""
    shared, target = open_folder / "shared", open_folder / "target"
    shared.mkdir()
    shared.chmod(0o1777)
    target.write_text("root's\n")
    text = filler("echo overwritten; exec sleep 1000", f"log = '{shared}/log'", user="root")
    with subprocess.Popen(["sleep", "1000"], env=simulated.on("0")) as somebody:
        running = up(text)
        running.until("work: GPU 0: left alone")
        as_neighbour(f"ln -s {target} {shared}/log")
        somebody.kill()
    running.until("is not to be trusted: ")
    end(running.process)
    assert target.read_text() == "root's\n"


def test_a_terminal_of_root_is_not_given_to_a_filler_of_another(
    up: Up, simulated: Fallow, box: pathlib.Path, config: Write
) -> None:
    """Who has it open could read what root types."""
    ours, its = os.openpty()
    file = config(filler(f"ls -l /proc/$$/fd | grep -c pts >> {box}/facts; exec sleep 1000"))
    environ = simulated.environ
    with subprocess.Popen(["fallow", "up", "--config", file], env=environ, stdout=its, stderr=its) as daemon:
        try:
            assert wait_for_lines(box / "facts", 1) == ["0"]
        finally:
            daemon.terminate()
    os.close(its)
    assert b"its output is discarded" in os.read(ours, 65536)
    os.close(ours)


def test_a_daemon_without_a_place_for_its_socket_says_so_and_what_to_set(
    open_folder: pathlib.Path, library: pathlib.Path
) -> None:
    """A simulated machine has a socket of its own, so this one has a driver."""
    world, home = World.create(open_folder / "world", cards=1), open_folder / "home"
    seen = world.environ(shutil.copytree(library, open_folder / "library"))
    home.mkdir()
    os.chown(home, NEIGHBOUR.pw_uid, NEIGHBOUR.pw_gid)
    file = open_folder / "fallow.toml"
    file.write_text("[page]\nenabled = false\n")
    environ = {
        **seen,
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(REPOSITORY),
        "FALLOW_STATE_DIR": str(home),
        "FALLOW_CLAIM_DIR": str(home / "claims"),
    }
    line = [sys.executable, "-m", "tests.as_user", str(NEIGHBOUR.pw_uid), "up", "--config", str(file)]
    up = subprocess.Popen(line, env=environ, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)
    try:
        said = Fill(up).until("XDG_RUNTIME_DIR is not set, so there is no socket")
        assert "set FALLOW_SOCKET" in said
    finally:
        end(up)
        world.close()
