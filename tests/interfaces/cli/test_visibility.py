"""A secret on a command line of one user, looked for in everything that another can get out of fallow."""

import json
import os
import pathlib
import stat
import subprocess
import sys

import pytest

from tests.interfaces.cli.filled import Fill
from tests.places import LIMIT_S, REPOSITORY
from tests.security.conftest import cards, machine
from tests.security.machine import ADA, BOB, Machine, Page
from tests.standin import Process, World
from tests.waiting import PROGRAM_S, until

__all__ = ["cards", "machine"]  # fixtures
pytestmark = pytest.mark.as_root
SECRET = "hunter2-of-ada"
HOOK_SECRET = "hunter2-of-a-hook"
FILLER_SECRET = "hunter2-of-a-filler"
SECRETS = (SECRET, HOOK_SECRET, FILLER_SECRET)
CONFIG = f"""
[[idle]]
name = "rule"
idle_for = "1s"
warmup = 0
gpus = 0
[protect]
commands = ["nobody runs {HOOK_SECRET}"]
[[guard]]
name = "watch"
user = "root"
action = ["run:true {HOOK_SECRET}"]
gpus = 2
arm_above = 1
arm_for = 0
idle_below = 1
idle_for = "400ms"
countdown = 0
[[filler]]
name = "work"
user = "root"
command = ["sh", "-c", "read line", "{FILLER_SECRET}"]
idle_for = 0
gpus = 3
"""
PATHS = ("/", "/metrics", *(f"/api/v1/{word}" for word in ("status", "events", "fillers", "guards", "history")))
REPORTS = tuple(f"/api/v1/report?by={by}" for by in ("gpu", "user", "job", "day"))
ASKS = (
    ("status",),
    ("status", "--long"),
    ("status", "--json"),
    ("why", "0"),
    ("why", "mine"),
    ("why", "--json"),
    *(("report", "--by", by, "--format", "csv") for by in ("gpu", "user", "job")),
    ("protect", "--list"),
    ("pick", "--gpus", "0"),
    ("run", "--gpus", "0", "--", "true"),
)


def holder(machine: Machine) -> int:
    """The pid of ada's job, which has a secret on its command line."""
    return machine.job(ADA, 0, "sh", "-c", "read line", f"--token={SECRET}").pid


def up(machine: Machine, show_commands: str = "owner") -> Fill:
    """Root's daemon, once its rule has found ada's job."""
    running = machine.up(CONFIG, of_machine=f"show_commands = '{show_commands}'")
    running.until("is idle")
    return running


def browsed(page: Page) -> dict[str, str]:
    """All that the page and its API tell to somebody who only asks."""
    return {path: page.ask(path)[2] for path in (*PATHS, *REPORTS)}


def asked(machine: Machine, uid: int) -> dict[str, str]:
    """All that the commands tell a user."""
    asker = machine.begin(uid)
    assert asker.stdin is not None
    assert asker.stdout is not None
    told: dict[str, str] = {}
    for words in ASKS:
        asker.stdin.write(json.dumps(words) + "\n")
        asker.stdin.flush()
        told[" ".join(words)] = asker.stdout.readline()
    return told


def kept(folder: pathlib.Path, mode: int) -> dict[str, str]:
    """What the files of a folder hold that these may read."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_mode & mode]
    return {path.name: path.read_bytes().decode(errors="replace") for path in files}


def leaks(told: dict[str, str]) -> list[str]:
    return [f"{where}: {text}" for where, text in told.items() if any(secret in text for secret in SECRETS)]


@pytest.mark.more
def test_another_user_finds_the_secret_nowhere_and_its_owner_and_root_do(machine: Machine) -> None:
    pid = holder(machine)
    running = up(machine)
    work = "import time\nwhile time.process_time() < 1: pass"
    machine.job(0, 2, sys.executable, "-c", work)
    running.until("'true' ended well")
    bob, ada = asked(machine, BOB), asked(machine, ADA)
    assert "sh" in bob["status"]
    assert str(pid) in bob["status --long"], "that somebody is there is told"
    assert leaks(bob | browsed(Page(running))) == []
    assert leaks(kept(machine.claims, stat.S_IROTH) | kept(machine.folder / "run", stat.S_IROTH)) == []
    assert SECRET in ada["status --json"]
    assert SECRET in ada["report --by job --format csv"]
    assert HOOK_SECRET not in "".join(ada.values())
    assert FILLER_SECRET not in "".join(ada.values())
    assert SECRET in asked(machine, 0)["status --json"], "root"
    running.process.terminate()
    _, rest = running.process.communicate(timeout=LIMIT_S)
    state = machine.home(0) / "state"
    files = kept(state, stat.S_IRUSR)
    assert f"{ADA}'s job {pid} (sh)" in "".join(files.values())
    assert leaks({name: text for name, text in files.items() if not name.startswith("history.db")}) == []
    assert leaks({"the log": "\n".join(running.said) + rest}) == []
    assert {path.stat().st_mode & 0o077 for path in state.rglob("history.db*")} == {0}, "root's alone"


@pytest.mark.more
def test_the_owner_of_the_machine_can_show_command_lines_to_everyone(machine: Machine) -> None:
    holder(machine)
    page = Page(up(machine, "everyone"))
    assert SECRET in machine.fallow(BOB, "status", "--json").stdout
    # History is written every few seconds.
    pages = until(lambda: browsed(page), lambda pages: SECRET in pages["/api/v1/report?by=job"], pause_s=PROGRAM_S)
    assert all(SECRET in pages[path] for path in ("/", "/api/v1/status"))
    assert SECRET not in pages["/api/v1/events"], "sentences never quote a command line"


def test_who_looks_alone_reads_their_own_lines_and_the_names_of_others(machine: Machine, cards: World) -> None:
    pid = holder(machine)
    cards[0].compute = [Process(pid, 2**30)]
    told = {uid: machine.fallow(uid, "status", "--json").stdout for uid in (0, ADA, BOB)}
    commands = {uid: json.loads(out)["gpus"][0]["holders"][0]["command"] for uid, out in told.items()}
    whole = f"sh -c read line --token={SECRET}"
    assert commands == {0: whole, ADA: whole, BOB: "sh"}
    for uid in (ADA, BOB):
        assert f"pid {pid} ({ADA}: sh)" in machine.fallow(uid, "pick", "-n", "2").stderr


def test_what_hidepid_hides_from_a_user_the_daemon_does_not_tell_them(machine: Machine) -> None:
    hidden = ["unshare", "--mount", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && exec "$@"', "sh"]
    if subprocess.run([*hidden, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a /proc with hidepid needs the right to mount")
    pid = holder(machine)
    up(machine)
    look = [*hidden, "setpriv", f"--reuid={BOB}", f"--regid={BOB}", "--clear-groups", "cat", f"/proc/{pid}/cmdline"]
    assert subprocess.run(look, capture_output=True, check=False).returncode != 0, "the kernel keeps it from bob"
    as_bob = [*hidden, sys.executable, "-m", "tests.as_user", str(BOB), "status", "--json"]
    told = subprocess.run(as_bob, cwd=REPOSITORY, env=machine.environ, capture_output=True, text=True, check=False)
    (seen,) = json.loads(told.stdout)["gpus"][0]["holders"]
    assert (seen["pid"], seen["user"], seen["command"]) == (pid, str(ADA), "sh")
    assert os.path.exists(f"/proc/{pid}")
