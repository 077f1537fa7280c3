"""Protections that a neighbour writes into the shared folder: nothing raises, nothing grows, no promise is lost."""

import json
import math
import os
import pathlib
import subprocess
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.actuators.claims.folder import ClaimFolder
from fallow.actuators.claims.protection_file import Says, understood
from fallow.actuators.claims.protections import ProtectionFolder
from fallow.core.errors import NotPermitted, WrongUsage
from fallow.core.protections import Everything, OneGpu, Protection, parse_target
from fallow.interfaces.render.as_json import protection_facts
from tests.actuators.claims.test_users import ADA, BOB, Users
from tests.conftest import Fallow
from tests.places import LIMIT_S
from tests.waiting import end

pytestmark = pytest.mark.more

NOW_S = 1_800_000_000.0
NONSENSE = [
    b"",
    b"[]",
    b'{"target": "all", "until": %s, "why": ""}' % (b"9" * 400),
    b'{"target": "all", "until": -%s, "why": ""}' % (b"9" * 400),
    b'{"target": "all", "until": %s, "why": ""}' % (b"9" * 5000),
    b'{"target": "all", "until": true, "why": ""}',
    b'{"target": "all", "until": "12", "why": ""}',
    b'{"target": "all", "until": [], "why": ""}',
    b'{"target": ["all"], "until": 12, "why": ""}',
    b'{"target": "all", "until": 12, "why": {}}',
    b'{"target": "gpu:\\ud800", "until": 12, "why": ""}',
    b'{"target": "pid:%s@1", "until": 12, "why": ""}' % (b"9" * 400),
    b'{"target": "gpu:%s", "until": 12, "why": ""}' % (b"x" * 4000),
    b"[" * 8000,
    b'{"a":' * 1600,
    b"\xff\xfe\x00",
    b"x" * 100_000,
]


def folder_of(path: pathlib.Path) -> ProtectionFolder:
    """As somebody sees it who cannot make the folder root's."""
    return ProtectionFolder(ClaimFolder(str(path)), lambda uid: f"user{uid}")


@pytest.fixture
def claims(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "claims"


@pytest.fixture
def protections(claims: pathlib.Path) -> ProtectionFolder:
    return folder_of(claims)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def said(protection: Protection) -> None:
    """Everything that faces do with a protection."""
    json.dumps(protection_facts(protection), ensure_ascii=False).encode()
    json.dumps(protection_facts(protection), ensure_ascii=False).encode()
    str(protection).encode()


@pytest.mark.parametrize("content", NONSENSE, ids=range(len(NONSENSE)))
def test_a_hold_that_makes_no_sense_protects_everything_and_is_told_once(
    protections: ProtectionFolder, claims: pathlib.Path, content: bytes
) -> None:
    """V2"""
    (claims / "protection-1").write_bytes(content)
    told: list[str] = []
    for _ in range(3):
        (protection,) = protections.active(NOW_S, told.append)
        assert (protection.target, protection.until_wall_s) == (Everything(), math.inf)
        said(protection)
    assert len(told) == 1
    assert "makes no sense, so it protects everything" in told[0]


@pytest.mark.parametrize(
    "words",
    [
        ("protect", "--list"),
        ("protect", "--for", "1h"),
        ("run", "--idle-timeout", "60s", "--", "true"),
    ],
    ids=lambda words: words[0],
)
def test_an_end_of_400_digits_ends_nobodys_command(simulated: Fallow, words: tuple[str, ...]) -> None:
    """V2"""
    simulated("pick")
    folder = pathlib.Path(simulated.environ["FALLOW_CLAIM_DIR"])
    (folder / "protection-1").write_bytes(NONSENSE[2])
    done = simulated(*words)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [("guard", "--idle-for", "1h"), ("up",)], ids=["guard", "up"])
def test_an_end_of_400_digits_ends_no_watcher(simulated: Fallow, words: tuple[str, ...]) -> None:
    """V2"""
    simulated("pick")
    folder = pathlib.Path(simulated.environ["FALLOW_CLAIM_DIR"])
    (folder / "protection-1").write_bytes(NONSENSE[2])
    watcher = simulated.start(*words)
    assert watcher.stderr is not None
    line = next((line for line in watcher.stderr if "makes no sense" in line), None)
    assert line is not None, "it has ended"
    assert "protects all (protection 1)" in line
    assert watcher.poll() is None


TEXT = st.text(alphabet="ab:@1\x1b\ud800\u202e²٣ \n", max_size=9)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "id": JSON,
        "target": JSON | st.sampled_from(["all", "gpu:x", "user:ada", "pid:1@2", "gpu:\ud800", "pid:²@1"]),
        "until": JSON | st.sampled_from([10**400, -(10**400), 2e9, 5.0]),
        "why": JSON | st.just("x" * 900),
        "released": JSON,
    },
)


@given(st.binary(max_size=300) | FIELDS.map(lambda fields: json.dumps(fields).encode()))
def test_nothing_that_a_file_says_raises_or_cannot_be_shown(raw: bytes) -> None:
    """V2"""
    word = understood(7, raw, "bob")
    assert len(word.protection.why) <= 200
    assert word.protection.until_wall_s == word.protection.until_wall_s
    said(word.protection)
    if word.says is Says.NONSENSE:
        assert word.protection.target == Everything()
        assert word.protection.until_wall_s == math.inf


@pytest.mark.parametrize("make", ["folder", "pipe", "link", "socket"])
def test_what_is_no_plain_file_costs_no_descriptor_and_protects(claims: pathlib.Path, make: str) -> None:
    """V3"""
    folder = ClaimFolder(str(claims))
    for number in range(1, 41):
        path = claims / f"protection-{number}"
        if make == "folder":
            path.mkdir()
        elif make == "pipe":
            os.mkfifo(path)
        elif make == "link":
            path.symlink_to("/etc/passwd")
        else:
            os.mknod(path, 0o140666)
    before, who_made_it = descriptors(), str(os.geteuid() or "somebody")  # who is named, unless root is
    for _ in range(5):
        found = ProtectionFolder(folder, str).active(NOW_S)
        assert len(found) == 40
        assert {protection.target for protection in found} == {Everything()}
        assert {protection.by_user for protection in found} == {who_made_it}
    assert descriptors() == before


def test_folders_in_the_place_of_labels_cost_no_descriptor(claims: pathlib.Path) -> None:
    """V3"""
    folder = ClaimFolder(str(claims))
    (claims / "waiting-5").mkdir()
    before = descriptors()
    for _ in range(5):
        with pytest.raises(OSError, match="not a plain file"):
            folder.read("waiting-5")
    assert descriptors() == before


def test_a_name_of_240_digits_keeps_nobody_from_placing_a_hold(
    protections: ProtectionFolder, claims: pathlib.Path
) -> None:
    """V10"""
    for name in (
        f"protection-{'9' * 240}",
        "protection-",
        "protection-007",
        "protection-٣",
        "protection-1x",
        "protection--1",
    ):
        (claims / name).touch()
    number = protections.place(Everything(), NOW_S + 60, "")
    assert 100_000_000 <= number <= 999_999_999
    assert [protection.id for protection in protections.active(NOW_S)] == [number]


def test_no_number_comes_again_also_not_after_a_release_and_a_restart(claims: pathlib.Path) -> None:
    """F19"""
    numbers = []
    for _ in range(300):
        protections = folder_of(claims)
        numbers.append(protections.place(Everything(), NOW_S + 60, ""))
        protections.release(numbers[-1])
    assert len(set(numbers)) == 300
    steps = {after - before for before, after in pairwise(numbers)}
    assert len(steps) > 290, "the next one can be told from the last"


def test_the_first_digits_of_an_id_will_do_where_only_one_hold_has_them(simulated: Fallow) -> None:
    """F19"""
    (placed,) = json.loads(simulated("protect", "--for", "1h", "--json").stdout)["protections"]
    done = simulated("protect", "--release", str(placed["id"])[:4])
    assert done.returncode == 0
    assert str(placed["id"]) in done.stderr
    folder = pathlib.Path(simulated.environ["FALLOW_CLAIM_DIR"])
    for number in ("123456781", "123456782"):
        (folder / f"protection-{number}").write_text('{"target": "all", "until": 4e9, "why": ""}')
    ambiguous = simulated("protect", "--release", "12345")
    assert ambiguous.returncode == 2
    assert "2 protections begin with 12345" in ambiguous.stderr


def test_a_user_who_is_not_there_cannot_be_held(simulated: Fallow) -> None:
    """F19"""
    done = simulated("protect", "user:rooot", "--for", "1h")
    assert done.returncode == 2
    assert "there is no user 'rooot' on this machine; did you mean root?" in done.stderr
    by_number = json.loads(simulated("protect", "user:0", "--for", "1h", "--json").stdout)["protections"]
    assert by_number[0]["subject"] == "user:root", "processes are known by name"
    nameless = json.loads(simulated("protect", "user:61234", "--for", "1h", "--json").stdout)["protections"]
    assert nameless[0]["subject"] == "user:61234"


def write_many(claims: pathlib.Path, uid: int, count: int) -> None:
    for number in range(1, count + 1):
        path = claims / f"protection-{number}"
        path.write_text('{"target": "gpu:x", "until": 2e9, "why": "%s"}' % ("x" * 5000))
        os.chown(path, uid, uid)


@pytest.mark.as_root
def test_20_000_files_of_one_user_count_as_one_and_cost_little(
    protections: ProtectionFolder, claims: pathlib.Path
) -> None:
    """Weak: 20,000 protection files straight into the folder."""
    ours = protections.place(OneGpu("GPU-a"), NOW_S + 3600, "ours")
    assert [protection.id for protection in protections.active(NOW_S)] == [ours]
    write_many(claims, BOB, 20_000)
    told: list[str] = []
    for _ in range(12):
        protections.active(NOW_S, told.append)
    found = protections.active(NOW_S, told.append)
    assert len(found) == 1 + 50 + 1
    assert ours in {protection.id for protection in found}
    assert found[-1].target == Everything()
    assert (found[-1].by_user, found[-1].id > 0) == (f"user{BOB}", True), "it counts where his own would"
    assert "19950 more than the 50 that a user may have" in found[-1].why
    assert len(json.dumps([protection_facts(protection) for protection in found])) < 30_000
    assert len([line for line in told if "more than the 50" in line]) == 1
    os.utime(claims, (NOW_S - 100, NOW_S - 100))
    protections.active(NOW_S)
    began_s = time.process_time()
    for _ in range(20):
        protections.active(NOW_S)
    assert (time.process_time() - began_s) / 20 < 0.004, "a look a second takes less than 0.4 % of a core"
    (claims / "something").touch()
    began_s = time.process_time()
    protections.active(NOW_S)
    assert time.process_time() - began_s < 0.2


@pytest.mark.as_root
def test_room_that_others_leave_is_used_at_the_next_look(protections: ProtectionFolder, claims: pathlib.Path) -> None:
    """Weak: the rest counts as one, and for no longer than it must."""
    write_many(claims, BOB, 60)
    protections.active(NOW_S)
    for number in range(1, 31):
        (claims / f"protection-{number}").unlink()
    protections.active(NOW_S)
    assert [protection.id for protection in protections.active(NOW_S)] == list(range(31, 61))


@pytest.mark.as_root
def test_a_user_cannot_place_more_than_50_by_hand_either(open_folder: pathlib.Path) -> None:
    """Weak: a limit per owner, also without a daemon."""
    open_folder.chmod(0o1777)
    users = Users(open_folder)
    folder_of(open_folder / "claims")
    write_many(open_folder / "claims", ADA, 50)
    code, _, err = users.run(ADA, "protect", "--for", "1h")
    assert code == 2
    assert "has 50 protections; release one first" in err
    assert users.run(BOB, "protect", "--for", "1h")[0] == 0


def test_a_reason_is_cut_when_it_is_read_and_when_it_is_written(
    protections: ProtectionFolder, claims: pathlib.Path
) -> None:
    """Weak: a reason is cut at 200 characters."""
    protections.place(Everything(), NOW_S + 60, "y" * 3000)
    (claims / "protection-5").write_text(json.dumps({"target": "all", "until": 2e9, "why": "x" * 3000}))
    assert [len(protection.why) for protection in protections.active(NOW_S)] == [200, 200]


def test_a_reason_that_is_toggled_stays_what_it_was(protections: ProtectionFolder, claims: pathlib.Path) -> None:
    """Weak: a reason toggled again and again grows neither journal nor log: each is written only when it changes."""
    path = claims / "protection-5"
    reasons = set()
    for turn in range(20):
        path.write_text(json.dumps({"target": "all", "until": 2e9, "why": f"reason {turn}"}))
        reasons |= {protection.why for protection in protections.active(NOW_S)}
    path.write_bytes(b"nonsense")
    reasons |= {protection.why for protection in protections.active(NOW_S)}
    assert reasons == {"reason 0"}


def test_a_target_that_is_no_text_is_defused(protections: ProtectionFolder, claims: pathlib.Path) -> None:
    r"""Weak: `gpu:\ud800` as a target."""
    (claims / "protection-5").write_text('{"target": "gpu:\\ud800", "until": 2e9, "why": "\\ud800"}')
    (protection,) = protections.active(NOW_S)
    said(protection)
    assert protection.target == Everything()


def test_what_was_put_in_the_place_of_an_expired_hold_is_not_removed(claims: pathlib.Path) -> None:
    """Weak: expired protections are removed by name after they were read."""
    path = claims / "protection-5"

    def swap(uid: int) -> str:  # called once the file was found, before it is removed
        path.unlink()
        path.write_text('{"target": "all", "until": 2e9, "why": "another"}')
        return str(uid)

    ClaimFolder(str(claims))
    path.write_text('{"target": "all", "until": 5, "why": "over"}')
    opened = os.open(path, os.O_RDONLY)  # its inode is not given to the other
    protections = ProtectionFolder(ClaimFolder(str(claims)), swap)
    protections.active(NOW_S)
    os.close(opened)
    assert "another" in path.read_text()


@pytest.mark.as_root
def test_a_second_name_of_a_file_is_no_second_hold(protections: ProtectionFolder, claims: pathlib.Path) -> None:
    """Weak: st_nlink. A neighbour's link must not outlive the release, nor put words into another's mouth."""
    number = protections.place(Everything(), NOW_S + 60, "ours")
    os.link(claims / f"protection-{number}", claims / "protection-77")
    assert [protection.id for protection in protections.active(NOW_S)] == [number], (
        "and the link takes nothing away from it"
    )
    protections.release(number)
    assert protections.active(NOW_S) == []
    other = claims.parent / "somebodys"
    other.write_text("no protection at all")
    os.link(other, claims / "protection-78")
    (protection,) = protections.active(NOW_S)
    assert protection.by_user == "somebody"


def test_what_any_user_could_have_written_is_nobodys_protection(
    protections: ProtectionFolder, claims: pathlib.Path
) -> None:
    """A claim file is root's and open to all: who gives it a second name would protect in root's name."""
    card = claims / "GPU-1"
    os.close(ClaimFolder(str(claims)).open(card.name))
    for number in range(100_000_001, 100_000_061):
        os.link(card, claims / f"protection-{number}")
    card.write_text('{"target": "user:eve", "until": 2e9, "why": "the boss wants it"}')
    found = protections.active(NOW_S)
    assert {protection.by_user for protection in found} == {"somebody"}
    assert "10 more than the 50 that a user may have" in found[-1].why, "root could have any number"
    number = protections.place(Everything(), NOW_S + 60, "true")
    assert {each.by_user for each in protections.active(NOW_S) if each.id == number} == {f"user{os.geteuid()}"}


@pytest.mark.as_root
def test_a_file_of_roots_that_makes_no_sense_is_not_roots_word(
    protections: ProtectionFolder, claims: pathlib.Path
) -> None:
    """Root's fallow writes none. A neighbour can move one here that root left in a folder of hers."""
    (claims / "protection-100000001").write_text("# marks of an editor")
    (protection,) = protections.active(NOW_S)
    assert (protection.target, protection.by_user) == (Everything(), "somebody")


@pytest.mark.as_root
@pytest.mark.parametrize(
    ("owner", "mode", "stays"),
    [(0, 0o1777, False), (ADA, 0o1777, False), (BOB, 0o1777, True), (0, 0o777, True), (0, 0o755, False)],
    ids=["root's", "ada's own", "bob's", "root's, not sticky", "root's alone"],
)
def test_a_hold_that_vanishes_stays_in_force_where_others_can_take_it_away(
    claims: pathlib.Path, protections: ProtectionFolder, owner: int, mode: int, stays: bool
) -> None:
    """V4"""
    number = protections.place(Everything(), NOW_S + 60, "a long experiment")
    path = claims / f"protection-{number}"
    os.chown(path, ADA, ADA)
    os.chown(claims, owner, owner)
    claims.chmod(mode)
    told: list[str] = []
    assert [protection.id for protection in protections.active(NOW_S, told.append)] == [number]
    path.unlink()
    for _ in range(3):
        assert [protection.why for protection in protections.active(NOW_S + 1, told.append)] == [
            "a long experiment"
        ] * stays
    assert len(told) == stays
    assert not stays or f"protection {number} of user{ADA} is gone from" in told[0]
    assert protections.active(NOW_S + 60) == [], "its time is over"


@pytest.mark.as_root
def test_in_a_folder_of_a_neighbour_s_the_owner_can_release_and_the_neighbour_cannot(
    open_folder: pathlib.Path,
) -> None:
    """V4"""
    users = Users(open_folder)
    claims = open_folder / "claims"
    claims.mkdir()
    os.chown(claims, BOB, BOB)
    claims.chmod(0o1777)
    watcher = folder_of(claims)
    for _ in range(2):
        assert users.run(ADA, "protect", "--for", "1h")[0] == 0
    kept, released = (protection.id for protection in watcher.active(NOW_S - 1e8))
    as_bob = ["setpriv", f"--reuid={BOB}", f"--regid={BOB}", "--clear-groups"]
    subprocess.run([*as_bob, "rm", "-f", str(claims / f"protection-{kept}")], check=True)
    assert {protection.id for protection in watcher.active(NOW_S - 1e8)} == {kept, released}
    code, _, err = users.run(BOB, "protect", "--release", str(released))
    assert (code, "only" in err) == (77, True)
    assert users.run(ADA, "protect", "--release", str(released))[0] == 0
    assert [protection.id for protection in watcher.active(NOW_S - 1e8)] == [kept]
    assert users.run(BOB, "protect", "--list")[1] == "nothing is protected\n"


def test_the_owner_of_a_hold_whose_file_was_taken_away_can_still_release_it(
    claims: pathlib.Path, protections: ProtectionFolder
) -> None:
    """V4"""
    number = protections.place(Everything(), NOW_S + 60, "")
    claims.chmod(0o777)  # not sticky: anybody can remove it
    other = folder_of(claims)
    assert [[protection.id for protection in each.active(NOW_S)] for each in (protections, other)] == [
        [number],
        [number],
    ]
    (claims / f"protection-{number}").unlink()
    assert [[protection.id for protection in each.active(NOW_S)] for each in (protections, other)] == [
        [number],
        [number],
    ]
    protections.release(number)
    assert [each.active(NOW_S) for each in (protections, other)] == [[], []]


def test_a_hold_that_only_the_policies_have_seen_is_listed_and_released_through_the_doors(
    claims: pathlib.Path, protections: ProtectionFolder
) -> None:
    """V4: the doors of a daemon look only when somebody asks."""
    doors = ProtectionFolder(ClaimFolder(str(claims)), str, beside=protections)
    number = protections.place(Everything(), NOW_S + 60, "")
    claims.chmod(0o777)  # not sticky: anybody can remove it
    protections.active(NOW_S)
    (claims / f"protection-{number}").unlink()
    protections.active(NOW_S)
    assert [protection.id for protection in doors.active(NOW_S)] == [number]
    doors.release(number)
    assert doors.active(NOW_S) == []
    assert protections.active(NOW_S) == []
    assert doors.active(NOW_S) == []


@pytest.mark.as_root
def test_a_job_is_left_alone_after_a_neighbour_took_its_hold_away(open_folder: pathlib.Path) -> None:
    """V4: end to end, in a folder that the neighbour made first, where nobody is root."""
    users = Users(open_folder)
    claims = open_folder / "claims"
    claims.mkdir()
    os.chown(claims, BOB, BOB)
    claims.chmod(0o1777)
    assert users.run(ADA, "protect", "--for", "1h")[0] == 0
    (file,) = claims.glob("protection-*")
    number = int(file.name.removeprefix("protection-"))
    fast = ("--every", "0.25s", "--warmup", "0.5s", "--grace", "1s")
    users.environ["FALLOW_STATE_DIR"] = str(open_folder / "state")
    (open_folder / "state").mkdir(mode=0o700)
    os.chown(open_folder / "state", ADA, ADA)
    watched = users.start(ADA, "run", "--gpus", "0", "--idle-timeout", "1s", *fast, "--", "sleep", "600")
    try:
        assert watched.stderr is not None
        (claims / "protection-1").write_text("nonsense")
        assert any("makes no sense" in line for line in watched.stderr), "it has looked, and seen both"
        (claims / "protection-1").unlink()
        as_bob = ["setpriv", f"--reuid={BOB}", f"--regid={BOB}", "--clear-groups"]
        subprocess.run([*as_bob, "rm", "-f", str(file)], check=True)
        assert f"protection {number} of {ADA} is gone from" in watched.stderr.readline()
        assert watched.poll() is None
        file.write_text(json.dumps({"id": number, "released": True, "until": 4e9}))
        os.chown(file, ADA, ADA)
        watched.communicate(timeout=LIMIT_S)
        assert watched.returncode == 124, "nothing but the protection had kept it"
    finally:
        end(watched)


def test_targets_as_they_are_written_are_read_back() -> None:
    for text in ("all", "gpu:GPU-a", "user:ada", "pid:12@345"):
        assert str(parse_target(text)) == text


@pytest.mark.as_root
def test_a_person_with_thousands_of_user_numbers_has_one_limit_for_all_of_them(claims: pathlib.Path) -> None:
    """subuid(5) gives each user 65,536 of them: each had a limit of its own, and the page grew to 14 MB."""
    protections = ProtectionFolder(ClaimFolder(str(claims)), lambda uid: "bob" if uid == BOB else str(uid))
    write_many(claims, 100_000, 1_000)
    for number in range(1, 1_001):
        os.chown(claims / f"protection-{number}", 100_000 + number, 100_000 + number)
    path = claims / "protection-9999"  # the last to be read
    path.write_text('{"target": "gpu:x", "until": 2e9, "why": "his own"}')
    os.chown(path, BOB, BOB)
    for _ in range(4):
        found = protections.active(NOW_S)
    assert len(found) == 200 + 1 + 1
    assert "his own" in {each.why for each in found if each.by_user == "bob"}
    assert (found[-1].target, found[-1].by_user) == (Everything(), "somebody without an account")
    assert "800 more than the 200 that all such users may have" in found[-1].why
    for number in range(1, 1_001):  # what has a second name and makes no sense is somebody's, and counts all the same
        path = claims / f"protection-{number}"
        path.write_text("nonsense")
        os.link(path, claims / f"second-{number}")
    assert len(protections.active(NOW_S)) == 200 + 1 + 1
    protections.demand_room(BOB, NOW_S)
    with pytest.raises(WrongUsage, match="users without an account have 200 protections"):
        protections.demand_room(100_000, NOW_S)


@pytest.mark.as_root
def test_the_owners_of_thousands_of_files_are_not_all_looked_up_at_once(claims: pathlib.Path) -> None:
    """A look-up may ask a server elsewhere: thousands of them in one look kept the daemon waiting."""
    asked: list[int] = []

    def name_of(uid: int) -> str:
        asked.append(uid)
        return str(uid)

    protections = ProtectionFolder(ClaimFolder(str(claims)), name_of)
    write_many(claims, 100_000, 3_000)
    for number in range(1, 3_001):
        os.chown(claims / f"protection-{number}", 100_000 + number, 100_000 + number)
    for _ in range(4):
        asked.clear()
        protections.active(NOW_S)
        assert len(asked) < 2_500
    asked.clear()
    protections.active(NOW_S)
    assert not asked, "each was asked about once"


@pytest.mark.as_root
def test_a_release_writes_into_no_file_that_has_another_name(claims: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """In a folder that is not sticky a release is written, and anybody can put any file there."""
    protections = folder_of(claims)
    claims.chmod(0o777)
    secret = tmp_path / "secret"
    secret.write_text("mine")
    os.link(secret, claims / "protection-100000005")
    with pytest.raises(NotPermitted):
        protections.release(100000005)
    assert secret.read_text() == "mine"
