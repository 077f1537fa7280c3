"""Who may protect a job of a cluster through the daemon's socket: its own user by the kernel's word, and root."""

import os
import pathlib
import socket

import pytest

from fallow.actuators.claims.folder import ClaimFolder
from fallow.actuators.claims.protections import ProtectionFolder
from fallow.readers.accounts import user_name
from fallow.readers.proc import Proc
from tests.actuators.claims.test_users import ADA, BOB, Users
from tests.interfaces.socket.conftest import Start
from tests.interfaces.socket.test_server import everything, request
from tests.places import LIMIT_S

pytestmark = pytest.mark.as_root
ADAS = "slurm:61"


@pytest.fixture
def users(open_folder: pathlib.Path, start_daemon: Start) -> Users:
    """Users beside a daemon that shows a cluster with a job of ADA's."""
    return beside(open_folder, start_daemon, "owned")


def beside(open_folder: pathlib.Path, start_daemon: Start, cluster: str) -> Users:
    """Users beside a daemon of root's that shows this cluster."""
    open_folder.chmod(0o1777)
    made = Users(open_folder)
    start_daemon({**made.environ, "FALLOW_STATE_DIR": str(open_folder / "state"), "CLUSTER_OF_TEST": cluster})
    return made


def posted(users: Users, uid: int, subject: str) -> tuple[int, str]:
    """Return the status and the answer to whoever asks without fallow's own client, and says to be somebody else."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(LIMIT_S)
        os.seteuid(uid)  # the kernel keeps who connects
        try:
            connection.connect(users.environ["FALLOW_SOCKET"])
        finally:
            os.seteuid(0)
        body = {"subject": subject, "for_s": 3600.0, "why": "mine"}
        said = request("POST", "/api/v1/protections", body, x_forwarded_user=str(ADA), authorization="Bearer 61001")
        connection.sendall(said)
        head, _, content = everything(connection).partition(b"\r\n\r\n")
    return int(head.split()[1]), content.decode()


def protections(users: Users) -> list[tuple[str, str]]:
    folder = ProtectionFolder(ClaimFolder(users.environ["FALLOW_CLAIM_DIR"]), user_name, Proc())
    return [(str(each.target), each.by_user) for each in folder.active(0.0)]


def test_a_job_of_slurm_is_protected_by_its_user_and_root_and_by_nobody_else(users: Users) -> None:
    status, said = posted(users, BOB, ADAS)
    assert (status, f"only {ADA} and root can protect it" in said) == (403, True), said
    code, out, err = users.run(BOB, "protect", ADAS, "--for", "1h")
    assert (code, out) == (77, ""), err
    assert f"slurm:61 is {ADA}'s; only {ADA} and root can protect it" in err
    assert protections(users) == []

    assert posted(users, ADA, ADAS)[0] == 201
    assert users.run(ADA, "protect", ADAS, "--for", "1h")[0] == 0
    assert posted(users, 0, ADAS)[0] == 201
    assert sorted(protections(users)) == [(ADAS, str(ADA)), (ADAS, str(ADA)), (ADAS, "root")]


def test_a_part_of_the_cluster_may_be_protected_by_anybody_and_is_told_to_mean_their_own_jobs(users: Users) -> None:
    assert posted(users, BOB, "partition:gpu")[0] == 201
    code, _, err = users.run(BOB, "protect", "node:n1", "--for", "1h")
    assert code == 0
    assert "this protects your own jobs; those of others only they and root can protect" in err


def test_what_kubernetes_runs_has_no_user_and_is_protected_by_anybody_who_names_it(
    open_folder: pathlib.Path, start_daemon: Start
) -> None:
    users = beside(open_folder, start_daemon, "pods")
    assert posted(users, BOB, "deployment:ml/web")[0] == 201
    assert protections(users) == [("kubernetes:Deployment/ml/web", str(BOB))]
