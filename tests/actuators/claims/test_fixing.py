"""What a neighbour leaves in the claim folder, root's fallow and `fallow doctor --fix` put right."""

import os
import pathlib
import re
import subprocess

import pytest

from fallow.actuators.claims.claims import seal_of
from tests.actuators.claims.test_neighbours import ADA, BOB, EVE, FIRST, ROOT, SECOND, Neighbourhood, street
from tests.places import BIN, LIMIT_S, REPOSITORY

__all__ = ["street"]
pytestmark = [pytest.mark.as_root, pytest.mark.more]


def ran(street: Neighbourhood, uid: int) -> bool:
    return street.run(uid, "run", "--gpus", "0,1", "--", "echo", "ran")[1] == "ran\n"


def access_lists(*paths: pathlib.Path) -> list[str]:
    return [name for path in paths for name in os.listxattr(path) if name.startswith("system.posix_acl")]


@pytest.fixture
def first(street: Neighbourhood) -> Neighbourhood:
    """The neighbour was first, and her folder and a file of hers are open to all but Ada."""
    street.eve("plant", "claims", str(street.claims))
    street.eve("plant", "open", str(street.claims / FIRST))
    if street.eve("shut out", "access", str(street.claims / FIRST), str(ADA)).returncode != 0:
        pytest.skip("this file system has no access lists")
    street.eve("shut out", "default", str(street.claims), str(ADA))
    return street


def test_an_access_list_of_who_made_the_folder_first_shuts_nobody_out_once_root_was_there(
    first: Neighbourhood,
) -> None:
    assert not ran(first, ADA)
    assert ran(first, ROOT)
    assert access_lists(first.claims, *first.claims.iterdir()) == []
    assert ran(first, ADA)


def test_fixing_removes_access_lists_from_the_folder_and_files_that_are_roots_already(first: Neighbourhood) -> None:
    first.eve("shut out", "access", str(first.claims), str(ADA))
    for path in (first.claims, first.claims / FIRST):
        os.chown(path, 0, 0)
        path.chmod(0o1777 if path.is_dir() else 0o666)
    assert not ran(first, ADA)
    assert "has an access list" in first.run(ROOT, "doctor")[1]
    assert first.run(ROOT, "doctor", "--fix")[0] == 0
    assert "nothing is to be done" in first.run(ROOT, "doctor", "--fix")[1]
    assert ran(first, ADA)


def test_a_file_that_a_neighbour_put_into_the_folder_does_not_keep_root_from_fixing_it(street: Neighbourhood) -> None:
    assert ran(street, ROOT)
    street.eve("plant", "shut", str(street.claims / "thesis.tex"))
    (street.claims / SECOND).unlink()
    street.eve("plant", "pipe", str(street.claims / SECOND))
    assert not ran(street, BOB)
    code, _, err = street.run(ROOT, "doctor", "--fix")
    assert code == 0, err
    assert ran(street, BOB)
    assert (street.claims / "thesis.tex").stat().st_uid == EVE, "what is not fallow's is left alone"


@pytest.mark.parametrize("whose", [ADA, ROOT])
@pytest.mark.parametrize("command", ["pick -n 2", "run --gpus 0 -- true", "doctor --fix", "up --for 1s"])
def test_a_private_file_that_a_neighbour_moved_into_the_folder_is_opened_to_nobody(
    street: Neighbourhood, whose: int, command: str
) -> None:
    """It was in a folder of hers, so she could move or remove it, and not read it."""
    street.environ["FALLOW_STATE_DIR"] = f"{street.claims}-state"
    street.eve("plant", "claims", str(street.claims))
    street.eve("plant", "folder", f"{street.claims}-hers")
    secret = pathlib.Path(f"{street.claims}-hers", "key")
    secret.write_text("secret")
    secret.chmod(0o600)
    os.chown(secret, whose, whose)
    with secret.open() as held:
        assert street.eve("rename", str(secret), str(street.claims / FIRST)).returncode == 0
        for uid in {whose, ROOT}:
            street.run(uid, *command.split())
        facts = os.fstat(held.fileno())
        assert (facts.st_mode & 0o777, facts.st_uid) == (0o600, whose)
        assert held.read() == "secret"
    if command in ("doctor --fix", "up --for 1s"):
        assert ran(street, BOB), "the card has got a file of its own"


def test_a_claim_stays_though_its_file_is_shut_when_root_puts_the_folder_right(street: Neighbourhood) -> None:
    street.claims.mkdir()
    street.claims.chmod(0o1777)
    job = street.job(ADA)
    (street.claims / FIRST).chmod(0o600)
    assert "is shut to others and is claimed: do this again later" in put_right(street, "doctor --fix", "up --for 1s")
    assert "is shut to us" in refusal(street)
    job.communicate("\n", timeout=LIMIT_S)
    put_right(street, "doctor --fix")
    assert ran(street, BOB)


def test_a_lease_of_a_neighbour_on_her_file_does_not_keep_root_from_fixing_the_folder(street: Neighbourhood) -> None:
    street.eve("plant", "claims", str(street.claims))
    lease = street.eve("lease", str(street.claims / FIRST))
    street.eve("plant", "pipe", str(street.claims / SECOND))
    code, out, err = street.run(ROOT, "doctor", "--fix")
    assert code == 0, err
    assert "has a lease on it" in out
    assert ran(street, BOB)
    assert lease.poll() is None


def test_fixing_shows_no_name_of_a_file_raw(street: Neighbourhood) -> None:
    assert ran(street, ROOT)
    street.eve("plant", "pipe", f"{street.claims}/GPU-\x1b[31m\nall is well")
    out = street.run(ROOT, "doctor", "--fix")[1]
    assert f"take {street.claims}/GPU-?[31m?all is well away, which is uid {EVE}'s" in out
    assert "\x1b" not in out


def refusal(street: Neighbourhood) -> str:
    """Why Bob is not given the first card."""
    code, out, err = street.run(BOB, "run", "--gpus", "0", "--", "echo", "ran")
    assert (code, out) == (75, "")
    return err


def put_right(street: Neighbourhood, *commands: str) -> str:
    """Root does what the unit does at its start; return what is said."""
    street.environ["FALLOW_STATE_DIR"] = f"{street.claims}-state"
    said = ""
    for command in commands:
        code, out, err = street.run(ROOT, *command.split())
        assert code == 0, err
        said += out + err
    return said


def test_a_claim_stays_though_a_neighbour_gives_its_file_a_second_name_before_root_fixes_the_folder(
    street: Neighbourhood,
) -> None:
    street.claims.mkdir()
    street.claims.chmod(0o1777)
    job = street.job(ADA)
    before = (street.claims / FIRST).stat().st_ino
    assert street.eve("link", str(street.claims / FIRST), str(street.claims / "x")).returncode == 0
    said = put_right(street, "doctor --fix", "up --for 1s")
    assert "has a second name and is claimed: do this again later" in said
    assert (street.claims / FIRST).stat().st_ino == before
    assert f"claimed by {ADA}" in refusal(street)
    job.communicate("\n", timeout=LIMIT_S)
    assert "take" in put_right(street, "doctor --fix", "up --for 1s")
    assert (street.claims / FIRST).stat().st_uid == 0
    assert ran(street, BOB)


@pytest.mark.parametrize(
    ("commands", "again"), [(("doctor --fix", "up --for 1s"), False), (("up --for 1s",), True), (("pick",), False)]
)
def test_a_claim_on_a_file_that_was_removed_before_root_took_the_folder_over_counts_until_it_ends(
    street: Neighbourhood, commands: tuple[str, ...], again: bool
) -> None:
    """Whether the file is missing then, or somebody has made it again."""
    street.eve("plant", "claims", str(street.claims))
    job = street.job(ADA)
    assert street.eve("remove", str(street.claims / FIRST)).returncode == 0
    if again:
        assert "claim file was removed" in refusal(street)
    said = put_right(street, *commands)
    assert (street.claims / FIRST).stat().st_uid == 0
    assert "claimed by a launch whose claim file was removed" in refusal(street)
    if "up" in commands[-1]:
        assert "GPU 0: claimed by a launch whose claim file was removed" in said
    job.communicate("\n", timeout=LIMIT_S)
    assert ran(street, BOB)
    put_right(street, *commands)
    private = street.claims.parent / "private"
    private.touch()
    os.chown(private, EVE, EVE)
    street.eve("lock", str(private), str(seal_of(str(street.claims), FIRST)), "1", "ofd")
    assert ran(street, BOB), "from now on only root can remove the file, so a lock on another one is no claim"


def test_a_claim_on_a_removed_file_counts_though_a_file_of_root_is_linked_in_its_place(street: Neighbourhood) -> None:
    """As a neighbour can for a GPU whose file root has not made yet."""
    put_right(street, "pick --gpus 1")
    (street.claims / FIRST).unlink(missing_ok=True)
    street.eve("plant", "open", str(street.claims / FIRST))
    job = street.job(ADA)
    assert street.eve("remove", str(street.claims / FIRST)).returncode == 0
    assert street.eve("link", str(street.claims / SECOND), str(street.claims / FIRST)).returncode == 0
    assert "claimed by a launch whose claim file was removed" in refusal(street)
    job.communicate("\n", timeout=LIMIT_S)


def test_a_claim_is_the_same_however_the_path_of_the_folder_is_spelled(street: Neighbourhood) -> None:
    street.eve("plant", "claims", str(street.claims))
    job = street.job(ADA)
    assert street.eve("remove", str(street.claims / FIRST)).returncode == 0
    link = street.claims.parent / "link"
    link.symlink_to(street.claims.parent)
    for spelled in (f"{link}/claims", f"{street.claims}/"):
        street.environ["FALLOW_CLAIM_DIR"] = spelled
        assert "claimed by a launch whose claim file was removed" in refusal(street)
    job.communicate("\n", timeout=LIMIT_S)


def test_a_claim_on_a_removed_file_stays_in_force_under_a_daemon_with_the_rights_of_the_unit(
    street: Neighbourhood,
) -> None:
    unit = (REPOSITORY / "src/fallow/examples/fallow.service").read_text()
    (rights,) = re.findall(r"^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)
    kept = ",".join(f"+{each.removeprefix('CAP_').lower()}" for each in rights.split())
    street.claims.mkdir()
    street.claims.chmod(0o1777)
    job = street.job(ADA)
    (street.claims / FIRST).unlink()
    words = [
        "setpriv",
        "--bounding-set",
        f"-all,{kept}",
        f"{BIN}/fallow",
        "up",
        "--listen",
        "127.0.0.1:0",
        "--for",
        "1s",
    ]
    environ = {**street.environ, "FALLOW_STATE_DIR": f"{street.claims}-state"}
    subprocess.run(words, env=environ, check=True, capture_output=True, timeout=LIMIT_S)
    assert "claimed by a launch whose claim file was removed" in refusal(street)
    job.communicate("\n", timeout=LIMIT_S)
