"""`fallow protect` places, lists and releases; it ends by itself; it is its owner's."""

import json
import os
import pathlib
import select
import subprocess
import sys

import pytest

from fallow.actuators.claims.folder import ClaimFolder
from fallow.actuators.claims.protections import ProtectionFolder
from fallow.core.protections import Affected, Everything, OneProcess, covering
from fallow.readers.proc import Proc
from tests.actuators.claims.test_users import ADA, BOB, Users
from tests.conftest import Fallow
from tests.places import LIMIT_S
from tests.waiting import PROGRAM_S, until


@pytest.fixture
def protections(tmp_path: pathlib.Path) -> ProtectionFolder:
    return ProtectionFolder(ClaimFolder(str(tmp_path / "claims")), lambda uid: f"user{uid}", Proc())


def test_a_hold_is_placed_listed_and_released(simulated: Fallow) -> None:
    placed = simulated("protect", "--for", "2h", "--why", "debugging")
    (listed,) = json.loads(simulated("protect", "--list", "--json").stdout)["protections"]
    assert f"protects all (protection {listed['id']}): debugging; for another 2h" in placed.stdout
    assert listed["subject"] == "all"
    assert simulated("protect", "--release", str(listed["id"])).returncode == 0
    assert simulated("protect", "--list").stdout == "nothing is protected\n"


def test_subjects_are_the_machine_a_gpu_a_process_or_a_user(simulated: Fallow) -> None:
    for subject, kept in [
        ("all", "all"),
        ("2", "gpu:GPU-fa11"),
        ("gpu:3", "gpu:GPU-fa11"),
        ("pid:1", "pid:1@"),
        ("user:root", "user:root"),
    ]:
        rows = json.loads(simulated("protect", subject, "--for", "1h", "--json").stdout)["protections"]
        assert rows[0]["subject"].startswith(kept)


@pytest.mark.more
def test_a_process_is_named_by_its_pid_alone_and_shown_with_the_gpu_that_it_is_on(simulated: Fallow) -> None:
    with subprocess.Popen(["sleep", "1000"], env=simulated.on("1")) as job:
        try:
            placed = simulated("protect", f"pid:{job.pid}", "--for", "2h").stdout
            shown = [simulated(*words).stdout for words in (("why", "1"), ("status", "-l", "1"))]
            other = simulated("why", "2").stdout
        finally:
            job.kill()
    sentence = placed.partition(";")[0]
    assert f" protects pid {job.pid} (protection " in sentence
    assert [sentence in each for each in shown] == [True, True]
    assert sentence not in other


@pytest.mark.more
def test_the_list_names_a_job_that_protects_itself_by_its_environment(
    simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    config = tmp_path / "fallow.toml"
    config.write_text("[[idle]]\nname = 'nights'\nidle_for = '1h'\nwarmup = '0s'\nact = true\n")
    config.chmod(0o600)
    up = simulated.start("up", "--config", str(config))
    with subprocess.Popen(["sleep", "1000"], env={**simulated.on("1"), "FALLOW_PROTECT": "1"}) as job:
        try:
            words = f"'s job {job.pid} (sleep) is protected: the environment of pid {job.pid} has FALLOW_PROTECT=1"
            until(lambda: words in simulated("protect", "--list").stdout, pause_s=PROGRAM_S)
        finally:
            job.kill()
    until(lambda: simulated("protect", "--list").stdout == "nothing is protected\n", pause_s=PROGRAM_S)
    up.terminate()
    up.wait(LIMIT_S)


def test_a_gpu_is_named_as_people_name_it_and_by_its_uuid_where_it_cannot_be_read(simulated: Fallow) -> None:
    placed = simulated("protect", "gpu:3", "--for", "2h").stdout
    assert " protects GPU 3 (protection " in placed
    assert simulated("protect", "--list").stdout.partition(";")[0] == placed.partition(";")[0]
    assert " protects gpu:GPU-" in simulated("protect", "--list", FALLOW_SIMULATE="1xH100").stdout


def test_a_hold_on_a_process_ends_with_it(protections: ProtectionFolder, tmp_path: pathlib.Path) -> None:
    """Else the protection on a job would keep the machine on long after the job."""
    job = subprocess.Popen(["sleep", "100"])
    stat = Proc().stat(job.pid)
    assert stat is not None
    number = protections.place(OneProcess(job.pid, stat.birth), 1000.0, "")
    machine = Affected(machine=True)
    assert [protection.id for protection in covering(protections.active(999.0), machine, 999.0)] == [number]
    job.kill()
    job.wait(LIMIT_S)
    assert protections.active(999.0) == []
    assert list((tmp_path / "claims").glob("protection-*")) == []


def test_a_hold_ends_by_itself(protections: ProtectionFolder) -> None:
    number = protections.place(Everything(), 1000.0, "")
    assert [protection.id for protection in protections.active(999.0)] == [number]
    assert protections.active(1000.0) == []


RUBBISH = [
    b"",
    b"[]",
    b"\xff",
    b'{"target": "moon", "until": 5, "why": ""}',
    b'{"target": ["all"], "until": 5, "why": ""}',
    b'{"target": "all", "until": "5", "why": ""}',
    b'{"target": "all", "until": true, "why": ""}',
    b'{"target": "all", "until": 5}',
    b'{"target": "gpu:\\ud800", "until": 5, "why": ""}',
    b'{"target": "pid:%s@1", "until": 5, "why": ""}' % (b"9" * 400),
    b"[" * 8000,
    b'{"target": "all", "until": 5, "why": "%s"}' % (b"x" * 9000),
]


@pytest.mark.parametrize("rubbish", RUBBISH, ids=range(len(RUBBISH)))
def test_what_makes_no_sense_protects_everything_as_somebody_s_and_is_told_once(
    protections: ProtectionFolder, tmp_path: pathlib.Path, rubbish: bytes
) -> None:
    (tmp_path / "claims" / "protection-100000001").write_bytes(rubbish)
    told: list[str] = []
    for _ in range(2):
        (protection,) = protections.active(1e12, told.append)
        assert (protection.target, protection.by_user) == (Everything(), "somebody")
    assert told == [str(protection)]
    protections.release(100000001)
    assert protections.active(1e12) == []


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "open to all"])
def test_what_is_no_file_of_its_owner_alone_protects_everything_and_is_not_waited_for(
    protections: ProtectionFolder, tmp_path: pathlib.Path, kind: str
) -> None:
    path, real = tmp_path / "claims" / "protection-100000001", tmp_path / "real"
    real.write_text('{"target": "gpu:x", "until": null, "why": ""}')
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to(real)
        case "folder":
            path.mkdir()
        case _:
            path.write_text(real.read_text())
            path.chmod(0o666)
    (protection,) = protections.active(0.0)
    assert (protection.target, protection.by_user) == (Everything(), "somebody")


def test_the_first_digits_of_an_id_will_do_where_only_one_protection_has_them(simulated: Fallow) -> None:
    (placed,) = json.loads(simulated("protect", "--for", "1h", "--json").stdout)["protections"]
    done = simulated("protect", "--release", str(placed["id"])[:4])
    assert done.returncode == 0
    assert str(placed["id"]) in done.stderr


@pytest.mark.as_root
def test_only_its_owner_or_root_can_release_a_hold_and_everybody_sees_it(open_folder: pathlib.Path) -> None:
    open_folder.chmod(0o1777)
    users = Users(open_folder)
    assert users.run(ADA, "protect", "--for", "1h", "--why", "mine")[0] == 0
    (number,) = (path.name.removeprefix("protection-") for path in (open_folder / "claims").glob("protection-*"))
    assert f"{ADA} protects all (protection {number}): mine" in users.run(BOB, "protect", "--list")[1]
    code, _, err = users.run(BOB, "protect", "--release", number)
    assert code == 77
    assert f"protection {number} is {ADA}'s" in err
    assert users.run(ADA, "protect", "--release", number)[0] == 0


_EXIT_OF_ONE_THREAD = {"x86_64": 60, "aarch64": 93}


@pytest.mark.parametrize("namespace", ["", ', "pid_namespace": 1'])
def test_a_process_of_another_pid_namespace_is_protected_until_the_time_ends(
    protections: ProtectionFolder, tmp_path: pathlib.Path, namespace: str
) -> None:
    """There the same pid is somebody else: that it is not here says nothing."""
    fields = f'{{"target": "pid:4000000@5", "until": 1000, "why": ""{namespace}}}'
    (tmp_path / "claims" / "protection-100000001").write_text(fields)
    assert [protection.id for protection in protections.active(999.0)] == [100000001]
    assert protections.active(1000.0) == []


def test_a_process_whose_first_thread_has_ended_is_still_held(tmp_path: pathlib.Path) -> None:
    """The kernel shows it as a zombie, and it works."""
    leave = "import ctypes, threading; threading.Thread(target=input).start(); print(flush=True)"
    job = subprocess.Popen(
        [sys.executable, "-c", f"{leave}; ctypes.CDLL(None).syscall({_EXIT_OF_ONE_THREAD[os.uname().machine]}, 0)"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert job.stdout is not None
    job.stdout.readline()
    stat = Proc().stat(job.pid)
    while stat is not None and stat.state != "Z":
        stat = Proc().stat(job.pid)
    assert stat is not None
    assert not Proc().has_ended(job.pid, stat.birth)
    pidfd = os.pidfd_open(job.pid)
    job.kill()
    assert select.select([pidfd], [], [], 30)[0]
    os.close(pidfd)
    assert Proc().has_ended(job.pid, stat.birth), "nobody has reaped it, and it has ended"
    job.communicate(timeout=LIMIT_S)
