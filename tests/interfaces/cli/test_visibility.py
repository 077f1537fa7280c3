"""V14: a secret on a command line of one user, looked for in everything that another can get out of fallow."""

import http.client
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.actuators.claims.test_users import ADA, BOB, Users
from tests.interfaces.cli.filled import Fill
from tests.places import BIN, LIMIT_S, REPOSITORY
from tests.standin import Process, World
from tests.waiting import PROGRAM_S, end, until

pytestmark = pytest.mark.as_root
SECRET = "hunter2-of-ada"
HOOK_SECRET = "hunter2-of-a-hook"
FILLER_SECRET = "hunter2-of-a-filler"
SECRETS = (SECRET, HOOK_SECRET, FILLER_SECRET)
CONFIG = f"""
[machine]
every = "200ms"
{{more}}
[terminals]
users = "ignore"
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


class Stage:
    """Root's daemon, ada who holds GPU 0 with a secret on her command line, and bob who looks for it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.users = Users(folder)
        self.users.environ["FALLOW_SIMULATE"] = "4xH100"
        self.folder = folder
        self.state = folder / "state"
        self.started: list[subprocess.Popen[str]] = []

    def start(self, words: list[str], uid: int = 0, **variables: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            words,
            env={**self.users.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            user=uid,
            group=uid,
            extra_groups=[],
            cwd="/",
        )
        self.started.append(process)
        return process

    def hold_a_card(self) -> int:
        holder = self.start(["sh", "-c", "echo up; read line", f"--token={SECRET}"], ADA, CUDA_VISIBLE_DEVICES="0")
        assert holder.stdout is not None
        assert holder.stdout.readline() == "up\n"
        return holder.pid

    def be_up(self, more: str = "") -> tuple[Fill, int]:
        """The daemon and the port of its page, once its rule has found ada's job."""
        config = self.folder / "fallow.toml"
        config.write_text(CONFIG.format(more=more))
        config.chmod(0o600)
        words = [str(BIN / "fallow"), "up", "--config", str(config), "--listen", "127.0.0.1:0"]
        running = Fill(self.start(words, FALLOW_STATE_DIR=str(self.state), HOME=str(self.folder)))
        port = int(running.until("the page is at").split("127.0.0.1:")[1].split("/")[0])
        running.until("is idle")
        return running, port

    def end(self) -> None:
        for process in (*self.started, *self.users.started):
            end(process)


@pytest.fixture
def stage(open_folder: pathlib.Path) -> Iterator[Stage]:
    open_folder.chmod(0o1777)
    made = Stage(open_folder)
    yield made
    made.end()


def browsed(port: int) -> dict[str, str]:
    """All that the page and its API tell to somebody who only asks."""
    paths = ("/", "/metrics", *(f"/api/v1/{word}" for word in ("status", "events", "fillers", "guards", "history")))
    told: dict[str, str] = {}
    for path in (*paths, *(f"/api/v1/report?by={by}" for by in ("gpu", "user", "job", "day"))):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
        connection.request("GET", path)
        answer = connection.getresponse()
        told[path] = answer.read().decode()
        assert answer.status == 200, (path, told[path])
        connection.close()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    connection.request("GET", "/stream")
    stream = connection.getresponse()
    told["/stream"] = "".join(stream.readline().decode() for _ in range(4))
    assert "tile-0" in told["/stream"]
    connection.close()
    return told


def asked(stage: Stage, pid: int, uid: int) -> dict[str, str]:
    """All that the commands tell a user."""
    asks = (
        ("status",),
        ("status", "--long"),
        ("status", "--json"),
        ("why", "0"),
        ("why", str(pid)),
        ("why", "--json"),
        *(("report", "--by", by, "--format", "csv") for by in ("gpu", "user", "job")),
        ("protect", "--list"),
        ("pick", "--gpus", "0"),
        ("run", "--gpus", "0", "--", "true"),
    )
    stage.users.environ["FALLOW_STATE_DIR"] = f"{stage.folder}/of-{uid}"
    asker = stage.users.start(uid)
    assert asker.stdin is not None
    assert asker.stdout is not None
    told: dict[str, str] = {}
    for words in asks:
        asker.stdin.write(json.dumps(words) + "\n")
        asker.stdin.flush()
        told[" ".join(words)] = asker.stdout.readline()
    return told


def world_readable(folder: pathlib.Path) -> dict[str, str]:
    """What others can read of the files that fallow leaves."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_mode & stat.S_IROTH]
    return {str(path): path.read_bytes().decode(errors="replace") for path in files}


def leaks(told: dict[str, str]) -> list[str]:
    return [f"{where}: {text}" for where, text in told.items() if any(secret in text for secret in SECRETS)]


@pytest.mark.more
def test_another_user_finds_the_secret_nowhere_and_its_owner_and_root_do(stage: Stage) -> None:
    pid = stage.hold_a_card()
    running, port = stage.be_up()
    work = "import time\nwhile time.process_time() < 1: pass"
    stage.start([sys.executable, "-c", work], CUDA_VISIBLE_DEVICES="2")
    running.until("'true' ended well")
    bob, pages = asked(stage, pid, BOB), browsed(port)
    assert "sh" in bob["status"]
    assert str(pid) in bob["status --long"], "that somebody is there is told"
    assert leaks(bob) == []
    assert leaks(pages) == []
    assert leaks(world_readable(stage.folder / "claims") | world_readable(stage.folder / "run")) == []
    ada = asked(stage, pid, ADA)
    assert SECRET in ada["status --json"]
    assert SECRET in ada["report --by job --format csv"]
    assert HOOK_SECRET not in "".join(ada.values())
    assert FILLER_SECRET not in "".join(ada.values())
    assert SECRET in asked(stage, pid, 0)["status --json"], "root"
    running.process.terminate()
    _, rest = running.process.communicate(timeout=LIMIT_S)
    assert leaks({"the log": "\n".join(running.said) + rest}) == []
    kept = {
        path.name: path.read_bytes().decode(errors="replace")
        for path in (stage.state / "simulated").iterdir()
        if path.is_file()
    }
    assert f"{ADA}'s job {pid} (sh)" in "".join(kept.values())
    assert leaks({name: text for name, text in kept.items() if name != "history.db"}) == []
    assert {path.stat().st_mode & 0o077 for path in stage.state.rglob("history.db*")} == {0}, "root's alone"


@pytest.mark.more
def test_the_owner_of_the_machine_can_show_command_lines_to_everyone(stage: Stage) -> None:
    stage.hold_a_card()
    _, port = stage.be_up('show_commands = "everyone"')
    assert SECRET in stage.users.run(BOB, "status", "--json")[1]
    # History is written every few seconds.
    pages = until(lambda: browsed(port), lambda pages: SECRET in pages["/api/v1/report?by=job"], pause_s=PROGRAM_S)
    assert all(SECRET in pages[path] for path in ("/", "/api/v1/status", "/stream"))
    assert SECRET not in pages["/api/v1/events"], "sentences never quote a command line"


def test_who_looks_alone_reads_their_own_lines_and_the_names_of_others(
    stage: Stage, make_world: Callable[..., World], library: pathlib.Path
) -> None:
    pid = stage.hold_a_card()
    world = make_world(cards=1)
    world[0].compute = [Process(pid, 2**30)]
    shutil.copytree(library, stage.folder / "driver")
    shutil.copy(world.path, stage.folder / "world")
    (stage.folder / "world").chmod(0o666)
    environ = {**world.environ(stage.folder / "driver")}
    environ = {name: text.replace(str(world.path), str(stage.folder / "world")) for name, text in environ.items()}
    del stage.users.environ["FALLOW_SIMULATE"]
    stage.users.environ.update(environ, FALLOW_DRIVER_TIMEOUT="30s")
    told = {uid: stage.users.run(uid, "status", "--json") for uid in (0, ADA, BOB)}
    assert [code for code, _, _ in told.values()] == [0, 0, 0], told
    alone = {uid: out for uid, (_, out, _) in told.items()}
    commands = {uid: json.loads(out)["gpus"][0]["holders"][0]["command"] for uid, out in alone.items()}
    whole = f"sh -c echo up; read line --token={SECRET}"
    assert commands == {0: whole, ADA: whole, BOB: "sh"}
    refused = {uid: "".join(map(str, stage.users.run(uid, "pick"))) for uid in (ADA, BOB)}
    assert all(f"pid {pid} ({ADA}: sh)" in said for said in refused.values())


def test_what_hidepid_hides_from_a_user_the_daemon_does_not_tell_them(stage: Stage) -> None:
    hidden = ["unshare", "--mount", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && exec "$@"', "sh"]
    if subprocess.run([*hidden, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a /proc with hidepid needs the right to mount")
    pid = stage.hold_a_card()
    stage.be_up()
    look = [*hidden, "setpriv", f"--reuid={BOB}", f"--regid={BOB}", "--clear-groups", "cat", f"/proc/{pid}/cmdline"]
    assert subprocess.run(look, capture_output=True, check=False).returncode != 0, "the kernel keeps it from bob"
    as_bob = [sys.executable, "-m", "tests.as_user", str(BOB), "status", "--json"]
    told = subprocess.run(
        [*hidden, *as_bob], cwd=REPOSITORY, env=stage.users.environ, capture_output=True, text=True, check=False
    )
    (holder,) = json.loads(told.stdout)["gpus"][0]["holders"]
    assert (holder["pid"], holder["user"], holder["command"]) == (pid, str(ADA), "sh")
    assert os.path.exists(f"/proc/{pid}")
