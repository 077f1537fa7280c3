"""A neighbour makes, removes, locks and forges what is shared; nobody is shut out, and no card is claimed twice."""

import os
import pathlib
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from fallow.actuators.claims.claims import seal_of
from fallow.readers.proc import Proc
from tests.actuators.claims.test_users import ADA, BOB, Users
from tests.engine.idle_rules.test_dodged import SUDO
from tests.places import LIMIT_S, REPOSITORY
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
        if action[0] in ("lock", "lease"):
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


def test_root_takes_over_a_folder_and_files_that_a_neighbour_made_first(street: Neighbourhood) -> None:
    """V4"""
    street.eve("plant", "claims", str(street.claims))
    street.eve("plant", "open", str(street.claims / FIRST))
    job = street.job(ROOT)
    assert street.claims.stat().st_uid == 0
    assert stat.S_IMODE(street.claims.stat().st_mode) == 0o1777
    assert (street.claims / FIRST).stat().st_uid == 0
    assert street.eve("remove", str(street.claims / FIRST)).returncode != 0, "it is not hers any more"
    code, _, err = street.run(ADA, "run", "--gpus", "0", "--", "true")
    assert code == 75
    assert "claimed by root" in err
    job.communicate("\n", timeout=LIMIT_S)


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
    assert f"{street.claims} is {EVE}'s, who can take claims away; root puts that right: fallow doctor --fix" in err


@pytest.mark.parametrize(
    ("kind", "who"),
    [("pipe", ADA), ("folder", ADA), ("link", ADA), ("shut", ADA), ("pipe", ROOT), ("shut", ROOT)],
)
def test_what_stands_in_place_of_one_cards_file_costs_that_card_alone(
    street: Neighbourhood, kind: str, who: int
) -> None:
    """V6"""
    street.eve("plant", "claims", str(street.claims))
    street.eve("plant", kind, str(street.claims / FIRST))
    assert street.run(who, "pick")[:2] == (0, "1\n")
    assert street.run(who, "run", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")[1] == f"{SECOND}\n"
    code, _, err = street.run(who, "run", "-n", "2", "--", "true")
    assert code == 75
    (line,) = [line for line in err.splitlines() if line.startswith("fallow: GPU 0: ")]
    assert f"its file {street.claims / FIRST} is " in line
    assert f"it is {EVE}'s (root puts that right: fallow doctor --fix)" in line


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


def test_a_lock_on_a_file_of_her_own_keeps_nobody_from_a_card_whose_file_is_roots(street: Neighbourhood) -> None:
    """It looked like a claim on a file that somebody has removed, which nobody but root can do here."""
    with_files(street)
    for uuid in (FIRST, SECOND):
        private = street.claims.parent / f"private-{uuid}"
        private.touch()
        os.chown(private, EVE, EVE)
        street.eve("lock", str(private), str(seal_of(str(street.claims), uuid)), "1", "ofd")
    assert street.run(ADA, "run", "-n", "2", "--", "echo", "ran")[1] == "ran\n"


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


@pytest.mark.parametrize("dry_run", [False, True])
def test_fixing_makes_the_folder_and_its_files_roots_and_keeps_claims(street: Neighbourhood, dry_run: bool) -> None:
    """V4, V6: `fallow doctor --fix`."""
    street.eve("plant", "claims", str(street.claims))
    street.eve("plant", "open", str(street.claims / FIRST))
    street.eve("plant", "pipe", str(street.claims / SECOND))
    job = street.job(ADA)
    code, out, _ = street.run(ROOT, "doctor", "--fix", *(["--dry-run"] if dry_run else []))
    assert code == 0
    would = "would " if dry_run else ""
    said = out.splitlines()
    assert said[0].startswith(f"{would}make {street.claims} root's, sticky and open to all (it was uid {EVE}'s")
    assert f"{would}make {street.claims / FIRST} root's and open to all, which was uid {EVE}'s" in said
    assert f"{would}take {street.claims / SECOND} away, which is uid {EVE}'s and no plain file" in said
    owner = EVE if dry_run else 0
    assert [street.claims.stat().st_uid, (street.claims / FIRST).stat().st_uid] == [owner, owner]
    assert (street.claims / SECOND).is_fifo() is dry_run
    code, _, err = street.run(BOB, "run", "--gpus", "0", "--", "true")
    assert code == 75
    assert f"claimed by {ADA}" in err, "a claim that is held stays as it is"
    if not dry_run:
        assert "nothing is to be done" in street.run(ROOT, "doctor", "--fix")[1]
        assert street.run(BOB, "run", "--gpus", "1", "--", "echo", "ran")[1] == "ran\n"
    job.communicate("\n", timeout=LIMIT_S)


def test_fixing_is_roots_and_leaves_what_is_not_a_claim_folder(street: Neighbourhood) -> None:
    code, _, err = street.run(ADA, "doctor", "--fix")
    assert code == 77
    assert "sudo fallow doctor --fix" in err
    street.claims.mkdir()
    os.chown(street.claims, ADA, ADA)
    (street.claims / "thesis.tex").touch()
    code, _, err = street.run(ROOT, "doctor", "--fix")
    assert code == 77
    assert "is not changed" in err
    assert street.claims.stat().st_uid == ADA


def test_up_of_root_refuses_a_folder_that_it_cannot_make_its_own(street: Neighbourhood) -> None:
    """V4"""
    street.claims.mkdir()
    street.claims.chmod(0o777)
    os.chown(street.claims, EVE, EVE)
    street.environ["FALLOW_STATE_DIR"] = f"{street.claims}-state"
    code, _, err = street.run(ROOT, "up", "--for", "1s")
    assert code == 77
    assert f"is {EVE}'s, who can delete the claims and protections of others" in err
    assert "fallow doctor --fix" in err
    assert street.run(ROOT, "doctor", "--fix")[0] == 0
    code, _, err = street.run(ROOT, "up", "--for", "1s")
    assert code == 0, err
    made = (FIRST, SECOND, "gate")
    assert {(street.claims / name).stat().st_uid for name in made} == {0}, "before anybody can, or fills the disk"
