"""A container of a pod has the names that the kubelet wrote down for it, if nobody else can have written them."""

import os
import pathlib

import pytest

from fallow.core.owner import PodNames
from fallow.core.unknown import Unknown
from fallow.readers.owners.pods import pod_names
from fallow.readers.owners.traces import container_of_pod
from fallow.readers.proc import Proc
from tests.actuators.claims.test_users import BOB

pytestmark = pytest.mark.as_root
UID, OTHER = "0b8a7a44-5a3c-4d59-9a51-0c3f9d3b1e01", "1c9b8b55-6b4d-4e6a-8b62-1d40ae4c2f12"
ID = "ab" * 32


@pytest.fixture
def folder(open_folder: pathlib.Path) -> pathlib.Path:
    """A folder of root's with the links of a kubelet to three containers."""
    made = open_folder / "containers"
    made.mkdir(mode=0o755)
    link(made, ID)
    link(made, "cd" * 32, container="sidecar")
    link(made, "ef" * 32, pod="web-1.example", uid=OTHER)
    return made


def link(
    folder: pathlib.Path,
    id_: str,
    *,
    pod: str = "llama-7d9-x2x",
    uid: str = UID,
    container: str = "main",
    logs: str = "/var/log/pods",
) -> pathlib.Path:
    """Make a link as the kubelet does; its target need not be there."""
    made = folder / f"{pod}_ml_{container}-{id_}.log"
    made.symlink_to(f"{logs}/ml_{pod}_{uid}/{container}/0.log")
    return made


def test_each_container_has_its_own_names(folder: pathlib.Path) -> None:
    assert pod_names(UID, ID, str(folder)) == PodNames("ml", "llama-7d9-x2x", "main")
    assert pod_names(UID, "cd" * 32, str(folder)) == PodNames("ml", "llama-7d9-x2x", "sidecar")
    assert pod_names(OTHER, "ef" * 32, str(folder)) == PodNames("ml", "web-1.example", "main")


def test_what_is_not_named_or_named_for_another_pod_is_unknown(folder: pathlib.Path) -> None:
    for uid, container in ((UID, "12" * 32), (OTHER, ID), (UID, "ef" * 32), (UID, ""), (UID, "b")):
        assert isinstance(pod_names(uid, container, str(folder)), Unknown)
    assert isinstance(pod_names(UID, ID, str(folder / "missing")), Unknown)


def test_two_links_that_disagree_and_targets_that_a_kubelet_does_not_write_are_unknown(folder: pathlib.Path) -> None:
    link(folder, ID, pod="another")
    assert isinstance(pod_names(UID, ID, str(folder)), Unknown)
    for number, forged in enumerate(("m\nain", "../..", "MAIN", 'a"b', "x" * 64)):
        id_ = f"{number:064x}"
        (folder / f"p_ml_c-{id_}.log").symlink_to(f"/var/log/pods/ml_p_{UID}/{forged}/0.log")
        assert isinstance(pod_names(UID, id_, str(folder)), Unknown), forged


def test_a_folder_that_others_can_write_to_and_a_link_of_another_user_are_not_believed(folder: pathlib.Path) -> None:
    theirs = link(folder, "99" * 32)
    os.chown(theirs, BOB, BOB, follow_symlinks=False)
    assert isinstance(pod_names(UID, "99" * 32, str(folder)), Unknown)
    assert isinstance(pod_names(UID, ID, str(folder)), PodNames)
    folder.chmod(0o777)
    assert isinstance(pod_names(UID, ID, str(folder)), Unknown)


@pytest.mark.parametrize(
    ("cgroup", "container"),
    [
        (f"/kubepods/besteffort/pod{UID}/{ID}", ID),
        (f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{ID}.scope", ID),
        (f"/kubepods/pod{UID}/{ID}/{'cd' * 32}", ID),
        (f"/kubepods/pod{UID}/own/{ID}", None),
        (f"/kubepods/pod{UID}", None),
    ],
)
def test_the_container_is_the_cgroup_right_below_the_pod_and_none_that_it_made_itself(
    tmp_path: pathlib.Path, cgroup: str, container: str | None
) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(f"0::{cgroup}\n")
    assert container_of_pod(Proc(str(tmp_path)), 7) == container
