"""A neighbour makes, removes, locks and forges what is shared; nobody is shut out, and no card is claimed twice."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from fallow.readers.proc import Proc
from tests.actuators.claims.test_users import ADA, BOB, Users
from tests.engine.idle_rules.test_dodged import SUDO
from tests.places import BIN, LIMIT_S, REPOSITORY
from tests.waiting import end

pytestmark = [pytest.mark.as_root, pytest.mark.more]
EVE = 61003
ROOT = 0
FIRST, SECOND = (f"GPU-fa110000-0000-4000-8000-{index:012x}" for index in range(2))
CLAIM_BYTE = 2**62
FILLER_BYTE = 2**62 + 1


class Neighbourhood(Users):
    """Users, and a neighbour among them."""

    @property
    def claims(self) -> pathlib.Path:
        return pathlib.Path(self.environ["FALLOW_CLAIM_DIR"])

    def eve(self, *action: str) -> subprocess.Popen[str]:
        """She does something, and if it lasts, has begun."""
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.actuators.claims.neighbour", str(EVE), *action],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        if action[0] == "lock":
            assert process.stdout is not None
            assert process.stdout.readline() == "done\n", process.communicate(timeout=LIMIT_S)
        else:
            process.communicate(timeout=LIMIT_S)
        return process

    def job(self, uid: int, *words: str) -> subprocess.Popen[str]:
        """A launch on the first card that runs, until its stdin is written to."""
        process = self.start(uid, "run", "--gpus", "0", *words, "--", "sh", "-c", "echo up; read line")
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return process


@pytest.fixture
def street(open_folder: pathlib.Path) -> Iterator[Neighbourhood]:
    open_folder.chmod(0o1777)
    made = Neighbourhood(open_folder)
    yield made
    for process in made.started:
        end(process)


@pytest.mark.parametrize(
    "command", ["status", "doctor", "pick", "run -- true", "run --wait 1s -- true", "protect 0 --for 1h"]
)
def test_root_changes_nothing_in_a_folder_that_a_neighbour_made(street: Neighbourhood, command: str) -> None:
    """V4"""
    street.environ["FALLOW_STATE_DIR"] = f"{street.claims}-state"
    street.eve("plant", "claims", str(street.claims))
    street.eve("plant", "open", str(street.claims / FIRST))
    before = [(path.name, path.stat()) for path in (street.claims, *street.claims.iterdir())]
    code, _, err = street.run(ROOT, *command.split())
    assert [(path.name, path.stat()) for path in (street.claims, *street.claims.iterdir())] == before
    if command in ("status", "doctor"):
        assert code in (0, 1), "looking is permitted"
    else:
        assert code == 77
        assert f"as root run: chown root: {street.claims} && chmod 1777 {street.claims}" in err


@pytest.mark.parametrize("action", ["remove the file", "move the folder"])
def test_a_card_is_not_claimed_twice_though_a_neighbour_takes_its_file_away(
    street: Neighbourhood, action: str
) -> None:
    """V4: without root's help, too."""
    street.eve("plant", "claims", str(street.claims))
    job = street.job(ADA)
    if action == "remove the file":
        assert street.eve("remove", str(street.claims / FIRST)).returncode == 0
    else:
        assert street.eve("rename", str(street.claims), f"{street.claims}-moved").returncode == 0
    code, out, err = street.run(BOB, "run", "--gpus", "0", "--", "echo", "ran")
    assert (code, out) == (75, "")
    assert "claimed by a launch whose claim file was removed" in err
    job.communicate("\n", timeout=LIMIT_S)
    assert street.run(BOB, "run", "--gpus", "0", "--", "echo", "ran")[1] == "ran\n", "its job has ended"


def test_those_who_claim_in_a_neighbours_folder_are_told(street: Neighbourhood) -> None:
    """V4"""
    street.eve("plant", "claims", str(street.claims))
    code, out, err = street.run(ADA, "run", "--", "echo", "ran")
    assert (code, out) == (0, "ran\n")
    assert f"{street.claims} is {EVE}'s, who can take claims away; as root run: chown root: {street.claims}" in err


@pytest.mark.parametrize(
    ("kind", "who"),
    [("pipe", ADA), ("folder", ADA), ("link", ADA), ("shut", ADA), ("pipe", ROOT), ("shut", ROOT)],
)
def test_what_stands_in_place_of_one_cards_file_costs_that_card_alone(
    street: Neighbourhood, kind: str, who: int
) -> None:
    """V6"""
    street.claims.mkdir()
    street.claims.chmod(0o1777)
    street.eve("plant", kind, str(street.claims / FIRST))
    assert street.run(who, "pick")[:2] == (0, "1\n")
    assert street.run(who, "run", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")[1] == f"{SECOND}\n"
    code, _, err = street.run(who, "run", "-n", "2", "--", "true")
    assert code == 75
    (line,) = [line for line in err.splitlines() if line.startswith("fallow: GPU 0: ")]
    assert f"its file {street.claims / FIRST} is " in line
    assert f"it is {EVE}'s (its owner or root can remove it)" in line


@pytest.mark.parametrize("kind", ["pipe", "folder", "shut"])
def test_what_stands_in_place_of_the_gate_keeps_nobody_out(street: Neighbourhood, kind: str) -> None:
    """V6"""
    street.eve("plant", "claims", str(street.claims))
    street.eve("plant", kind, str(street.claims / "gate"))
    assert street.run(ADA, "pick")[0] == 0
    assert street.run(ADA, "run", "--wait", "1s", "--", "echo", "ran")[1] == "ran\n"


def with_files(street: Neighbourhood) -> None:
    """The files are there, root's, as on a machine that is in order."""
    assert street.run(ROOT, "pick", "-n", "2")[0] == 0


@pytest.mark.parametrize(("start", "length"), [(1, 2**62 - 1), (1, 1), (10**9, 1)])
def test_a_neighbour_who_locks_the_line_keeps_nobody_from_a_free_card(
    street: Neighbourhood, start: int, length: int
) -> None:
    """V7"""
    with_files(street)
    for uuid in (FIRST, SECOND):
        street.eve("lock", str(street.claims / uuid), str(start), str(length), "ofd")
    assert street.run(ADA, "run", "--", "echo", "ran")[1] == "ran\n"
    assert street.run(ADA, "pick", "-n", "2")[:2] == (0, "0,1\n")


def test_a_wait_ends_in_its_time_though_a_neighbour_locks_the_line(street: Neighbourhood) -> None:
    """V7"""
    job = street.job(ADA)
    street.eve("lock", str(street.claims / FIRST), "1", str(2**62 - 1), "ofd")
    code, _, err = street.run(BOB, "run", "--gpus", "0", "--wait", "1s", "--", "true")
    assert code == 75
    assert "after waiting 1s" in err
    job.communicate("\n", timeout=LIMIT_S)


def test_a_neighbour_who_keeps_the_gate_shut_costs_seconds_and_is_named_to_root(street: Neighbourhood) -> None:
    """V7"""
    with_files(street)
    eve = street.eve("lock", str(street.claims / "gate"), "0", "1", "ofd")
    start_s = time.monotonic()
    code, out, err = street.run(ROOT, "pick", "-n", "2", "--wait", "1s")
    assert (code, out) == (0, "0,1\n")
    assert time.monotonic() - start_s < LIMIT_S
    assert f"pid {eve.pid} ({EVE}: python" in err
    assert "keeps the gate of" in err


def test_a_lock_that_claims_without_fallow_is_named_to_root_and_to_nobody_falsely(street: Neighbourhood) -> None:
    """V7: a label of root's pid 1 is not believed."""
    with_files(street)
    (street.claims / FIRST).write_bytes(b'{"pid": 1, "birth": 1, "user": "root", "command": "train"}'.ljust(4096))
    eve = street.eve("lock", str(street.claims / FIRST), str(CLAIM_BYTE), "1", "ofd")
    code, _, err = street.run(ROOT, "run", "--gpus", "0", "--", "true")
    assert code == 75
    assert f"GPU 0: claimed by {EVE} for python" in err
    assert f"(pid {eve.pid})" in err
    code, _, err = street.run(ADA, "run", "--gpus", "0", "--", "true")
    assert code == 75
    assert "GPU 0: claimed by a process that we may not look into" in err
    assert street.run(ADA, "run", "--", "echo", "ran")[1] == "ran\n", "the other card is given"


def test_a_lock_of_the_older_kind_is_named_to_root_alone(street: Neighbourhood) -> None:
    """V7: the number beside it proves nothing; it may be somebody else's by now."""
    with_files(street)
    eve = street.eve("lock", str(street.claims / FIRST), str(CLAIM_BYTE), "1", "posix")
    assert f"(pid {eve.pid})" in street.run(ROOT, "run", "--gpus", "0", "--", "true")[2]
    err = street.run(ADA, "run", "--gpus", "0", "--", "true")[2]
    assert "GPU 0: claimed by a process that we may not look into" in err


def test_a_launch_that_is_stopped_is_passed_over_in_line(street: Neighbourhood) -> None:
    """A neighbour who waits for both cards and stops kept everybody from the free one, for ever."""
    with_files(street)
    job = street.job(ADA)
    eve = street.start(EVE, "run", "-n", "2", "--wait", "--", "true")
    assert eve.stderr is not None
    while "first in line" not in (said := eve.stderr.readline()):
        assert said, eve.communicate(timeout=LIMIT_S)
    code, _, err = street.run(BOB, "run", "--", "true")
    assert code == 75
    assert f"pid {eve.pid} ({EVE}: true) came earlier and waits for it" in err, "who keeps a place is named"
    eve.send_signal(signal.SIGSTOP)
    assert street.run(BOB, "run", "--", "echo", "ran")[1] == "ran\n"
    eve.send_signal(signal.SIGCONT)
    assert street.run(BOB, "run", "--", "true")[0] == 75, "it has kept its place"
    job.communicate("\n", timeout=LIMIT_S)
    assert eve.wait(LIMIT_S) == 0


def test_words_in_a_neighbours_environment_do_not_shut_root_out(street: Neighbourhood) -> None:
    """V7: FALLOW_CLAIM of all cards, and dodging the look at whose it is."""
    with_files(street)
    environ = {**street.environ, "FALLOW_CLAIM": f"{FIRST},{SECOND}"}
    with subprocess.Popen(["sleep", "600"], user=EVE, group=EVE, extra_groups=[], env=environ) as sleeper:
        try:
            assert street.run(ROOT, "run", "-n", "2", "--", "echo", "ran")[1] == "ran\n"
        finally:
            sleeper.kill()


def test_nor_do_words_in_the_environment_that_she_gave_a_setuid_program(
    street: Neighbourhood, open_folder: pathlib.Path
) -> None:
    """As sudo that waits for a password, which is root's. One that root has started itself keeps its card."""
    with_files(street)
    sudo = open_folder / "sudo"
    subprocess.run(["cc", "-x", "c", "-o", str(sudo), "-"], input=SUDO, text=True, check=True)
    sudo.chmod(0o4755)
    environ = {**street.environ, "FALLOW_CLAIM": f"{FIRST},{SECOND}"}
    for uid, may_run in ((EVE, True), (ROOT, False)):
        with subprocess.Popen(
            [str(sudo)],
            user=uid,
            group=uid,
            extra_groups=[],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as waiting:
            assert waiting.stdout is not None
            assert waiting.stdout.readline()
            assert Proc().uid(waiting.pid) == 0, "setuid programs run here"
            assert (street.run(ROOT, "run", "-n", "2", "--", "echo", "ran")[1] == "ran\n") is may_run


def test_a_card_in_use_is_not_picked_for_a_false_mark(street: Neighbourhood) -> None:
    """V7: a neighbour's job, below a process that calls itself a keeper, on a card that she marked as filled."""
    with_files(street)
    street.eve("lock", str(street.claims / FIRST), str(FILLER_BYTE), "1", "ofd")
    script = f"CUDA_VISIBLE_DEVICES={FIRST} sleep 600 & echo up; wait"
    words = ["sh", "-c", script, "fallow.engine.fill.keeper"]
    with subprocess.Popen(
        words,
        user=EVE,
        group=EVE,
        extra_groups=[],
        env=street.environ,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as keeper:
        assert keeper.stdout is not None
        keeper.stdout.readline()
        try:
            assert street.run(ROOT, "pick", "--gpus", "0")[0] == 75
            assert street.run(ROOT, "pick")[1] == "1\n"
        finally:
            os.killpg(keeper.pid, 9)


def test_a_neighbour_cannot_make_the_drafts_of_a_launch_before_it(
    street: Neighbourhood, monkeypatch: pytest.MonkeyPatch
) -> None:
    """V10"""
    from threading import get_native_id

    from fallow.actuators.claims.folder import ClaimFolder

    folder = ClaimFolder(str(street.claims))
    for name in (FIRST, "gate"):
        (street.claims / f".draft-{os.getpid()}-{get_native_id()}-{name}").touch()
        os.close(folder.open(name))
    folder.close()
    assert {FIRST, "gate"} <= set(os.listdir(street.claims))


def test_up_of_root_refuses_a_folder_of_a_neighbour_until_root_has_done_what_it_says(street: Neighbourhood) -> None:
    """V4"""
    street.eve("plant", "claims", str(street.claims))
    street.environ["FALLOW_STATE_DIR"] = f"{street.claims}-state"
    job = street.job(ADA)
    code, _, err = street.run(ROOT, "up", "--for", "1s")
    assert code == 77
    assert f"is {EVE}'s, who can delete the claims and protections of others" in err
    (command,) = re.findall("as root run: (.*)$", err, re.MULTILINE)
    subprocess.run(["sh", "-c", command], check=True, timeout=LIMIT_S)
    code, _, err = street.run(ROOT, "up", "--for", "1s")
    assert code == 0, err
    assert (street.claims / SECOND).stat().st_uid == 0, "it is made before anybody else can"
    assert f"claimed by {ADA}" in street.run(BOB, "run", "--gpus", "0", "--", "true")[2]
    job.communicate("\n", timeout=LIMIT_S)


def test_a_claim_stays_though_its_file_is_removed_and_root_makes_it_anew(street: Neighbourhood) -> None:
    """With the rights that the unit leaves; and however the path of the folder is spelled."""
    unit = (REPOSITORY / "src/fallow/examples/fallow.service").read_text()
    (rights,) = re.findall(r"^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)
    kept = ",".join(f"+{each.removeprefix('CAP_').lower()}" for each in rights.split())
    street.claims.mkdir()
    street.claims.chmod(0o1777)
    job = street.job(ADA)
    (street.claims / FIRST).unlink()
    daemon = ["setpriv", "--bounding-set", f"-all,{kept}", f"{BIN}/fallow", "up", "--listen", "127.0.0.1:0"]
    environ = {**street.environ, "FALLOW_STATE_DIR": f"{street.claims}-state"}
    subprocess.run([*daemon, "--for", "1s"], env=environ, check=True, capture_output=True, timeout=LIMIT_S)
    assert (street.claims / FIRST).stat().st_uid == 0
    link = street.claims.parent / "link"
    link.symlink_to(street.claims.parent)
    for spelled in (str(street.claims), f"{link}/claims", f"{street.claims}/"):
        street.environ["FALLOW_CLAIM_DIR"] = spelled
        code, out, err = street.run(BOB, "run", "--gpus", "0", "--", "echo", "ran")
        assert (code, out) == (75, "")
        assert "claimed by a launch whose claim file was removed" in err
    job.communicate("\n", timeout=LIMIT_S)
    assert street.run(BOB, "run", "--gpus", "0", "--", "echo", "ran")[1] == "ran\n"
