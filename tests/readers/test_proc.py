"""What /proc says of a process, read from small trees and from this machine."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from fallow.core.gpu import Holder
from fallow.core.owner import NO_OWNER, Owner, OwnerKind
from fallow.core.unknown import Unknown
from fallow.readers.proc import PAGE_BYTES, Proc
from tests.places import LIMIT_S
from tests.waiting import end

CONTAINER = "3f2b" * 16
POD = "1b2c3d4e-0000-1111-2222-333344445555"
STAT = "{pid} ({name}) S {parent} 1 1 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 1 0 {birth} 1000 25 18446744073709551615"


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path


def add(
    root: pathlib.Path, pid: int, *, parent: int = 1, name: str = "python", birth: int = 777, **files: bytes
) -> None:
    folder = root / str(pid)
    folder.mkdir()
    (folder / "stat").write_text(STAT.format(pid=pid, name=name, parent=parent, birth=birth))
    for file, content in {"cmdline": b"python\0train.py\0", "cgroup": b"0::/user.slice\n", **files}.items():
        (folder / file).write_bytes(content)


def described(root: pathlib.Path, pid: int = 42) -> Holder:
    return Proc(str(root)).describe(Holder(pid, 1))


def test_an_init_that_the_kernel_starts_in_its_first_tick_is_there(root: pathlib.Path) -> None:
    """On a small virtual machine `fallow stop pid:1` said that there is no process 1."""
    add(root, 1, parent=0, name="init", birth=0)
    stat = Proc(str(root)).stat(1)
    assert stat is not None
    assert stat.birth != 0, "0 stands for nobody"


def test_birth_parent_cpu_and_memory_are_read_past_a_name_with_parentheses(root: pathlib.Path) -> None:
    add(root, 42, parent=7, name="a) S 9 (b c", birth=12345)
    stat = Proc(str(root)).stat(42)
    assert stat is not None
    assert (stat.parent, stat.birth, stat.cpu_ticks, stat.resident_bytes) == (7, 12345, 300, 25 * PAGE_BYTES)


def test_a_holder_that_proc_does_not_have_is_still_a_holder(root: pathlib.Path) -> None:
    assert Proc(str(root)).stat(999) is None
    holder = described(root, pid=999)
    assert holder.pid == 999
    assert isinstance(holder.user, Unknown)
    assert "another pid namespace" in holder.user.why


IN_CONTAINER, IN_POD, IN_SLURM = (OwnerKind.CONTAINER, CONTAINER), (OwnerKind.POD, POD), (OwnerKind.SLURM, "31337")
POD_ = POD.replace("-", "_")


@pytest.mark.parametrize(
    ("owner", "path"),
    [
        (IN_CONTAINER, f"0::/docker/{CONTAINER}"),
        (IN_CONTAINER, f"0::/system.slice/docker-{CONTAINER}.scope"),
        (IN_CONTAINER, f"12:memory:/docker/{CONTAINER}"),
        (IN_CONTAINER, f"0::/machine.slice/libpod-{CONTAINER}.scope/container"),
        (IN_POD, f"0::/kubepods/besteffort/pod{POD}/{CONTAINER}"),
        (IN_POD, f"0::/kubepods.slice/kubepods-besteffort-pod{POD_}.slice/crio-{CONTAINER}.scope"),
        (IN_POD, f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD_}.slice/x.scope"),
        (IN_POD, f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{POD_}.slice/x.scope"),
        (IN_POD, f"0::/system.slice/containerd.service/kubepods-besteffort-pod{POD_}.slice:cri-containerd:x"),
        # as a daemon in a container with a cgroup namespace of its own is shown them
        (IN_POD, f"0::/../../kubepods-besteffort-pod{POD_}.slice/crio-{CONTAINER}.scope"),
        (IN_POD, f"0::/../../../burstable/pod{POD}/{CONTAINER}"),
        (IN_POD, f"4:memory:/../../pod{POD}/{CONTAINER}"),
        (IN_SLURM, "0::/system.slice/slurmstepd.scope/job_31337/step_0/user/task_0"),
        (IN_SLURM, "9:devices:/slurm/uid_1000/job_31337/step_batch"),
        (IN_SLURM, "9:devices:/slurm_n1/uid_1000/job_31337/step_batch"),
        (IN_SLURM, "0::/system.slice/n1_slurmstepd.scope/job_31337/step_0/user/task_0"),
        (IN_SLURM, "0::/../slurmstepd.scope/job_31337/step_0/user/task_0"),
    ],
)
def test_a_container_a_pod_and_a_slurm_job_are_known_by_their_cgroups(
    root: pathlib.Path, owner: tuple[OwnerKind, str], path: str
) -> None:
    add(root, 42, cgroup=path.encode())
    found = described(root).owner
    assert isinstance(found, Owner)
    assert (found.kind, found.id, found.manager) == (*owner, None)


@pytest.mark.parametrize(
    "above",
    [
        "/user.slice/user-4002.slice/user@4002.service/",
        "/user.slice/user-4002.slice/user@4002.service/app.slice/",
        "/user.slice/",
        "/../../user.slice/user-4002.slice/user@4002.service/",
        "/../user-4002.slice/user@4002.service/",
        "/system.slice/jupyter-mallory.service/",
        "/system.slice/slurmstepd.scope/hers/",
        "/lxc.payload.hers/",
        f"/docker/{CONTAINER}/",
        f"/machine.slice/libpod-{CONTAINER}.scope/",
        f"/kubepods/pod{POD[::-1]}/{CONTAINER}/",
        "/slurm" * 600 + "/",
    ],
)
def test_the_name_of_a_pod_or_a_slurm_job_below_what_a_user_may_be_given_names_neither(
    root: pathlib.Path, above: str
) -> None:
    """A user's own slice, a service with Delegate=, and a container are places where a user can make any cgroup."""
    names = (
        f"pod{POD}/{CONTAINER}",
        f"kubepods/besteffort/pod{POD}/{CONTAINER}",
        f"kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-{CONTAINER}.scope",
        "slurmstepd.scope/job_31337/step_0",
        "slurm/uid_4002/job_31337/step_0",
        "system.slice/slurmstepd.scope/job_31337/step_0",
    )
    for pid, name in enumerate(names, 42):
        add(root, pid, cgroup=f"0::{above}{name}\n".encode())
        owner = described(root, pid).owner
        assert isinstance(owner, Owner)
        assert owner.id not in (POD, "31337"), name


@pytest.mark.parametrize("name", ["--host=elsewhere.service", "-H x.service", "*.service", "a b.service", ".service"])
@pytest.mark.parametrize("slices", ["/user.slice/user-{uid}.slice/user@{uid}.service/", "/system.slice/"])
def test_a_cgroup_with_the_name_of_an_option_or_a_pattern_is_no_service(
    root: pathlib.Path, slices: str, name: str
) -> None:
    """Users choose the names of their cgroups, and such a name would become a word of systemctl's command line."""
    path = slices.format(uid=os.getuid())
    status = b"Uid:\t%d\t%d\t" % (os.getuid(), os.getuid())
    add(root, 42, cgroup=f"0::{path}{name}\n".encode(), status=status)
    assert described(root).owner == NO_OWNER
    add(root, 43, cgroup=f"0::{path}app-gpu@1\\x2d.service\n".encode(), status=status)
    owner = described(root, 43).owner
    assert isinstance(owner, Owner)
    assert (owner.kind, owner.id) == (OwnerKind.SERVICE, "app-gpu@1\\x2d.service")


def test_a_plain_process_has_no_owner_and_one_without_a_command_line_is_named_in_brackets(root: pathlib.Path) -> None:
    add(root, 42)
    add(root, 43, cmdline=b"", comm=b"kworker/0\n")
    assert (described(root).owner, described(root).command) == (NO_OWNER, "python train.py")
    assert described(root, 43).command == "[kworker/0]"


def test_the_tree_below_a_process_is_found_parents_first_and_what_is_above_it_to_the_top(root: pathlib.Path) -> None:
    for pid, parent in ((1, 0), (10, 1), (11, 10), (12, 11), (13, 10), (20, 1)):
        add(root, pid, parent=parent)
    found = [stat.pid for stat in Proc(str(root)).descendants(10)]
    assert sorted(found) == [11, 12, 13]
    assert found.index(11) < found.index(12)
    assert list(Proc(str(root)).ancestors(12)) == [11, 10, 1]


def test_a_process_that_is_being_reaped_has_no_lineage_and_is_nobodys_ancestor(root: pathlib.Path) -> None:
    """The kernel shows it for a moment with the parent 0, so that a filler's child seemed to be a stranger."""
    gone, below = 4_194_305, 4_194_306  # beyond the kernel's limit, so no process of this machine
    add(root, gone)
    stat = root / str(gone) / "stat"
    stat.write_text(stat.read_text().replace(" S 1 1 1 ", " X 0 -1 -1 "))
    add(root, below, parent=gone)
    assert Proc(str(root)).lineage(gone) == ()
    assert Proc(str(root)).lineage(below) == ()


def test_a_real_child_is_found_with_its_environment_and_user() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); input()"],
        env={**os.environ, "FALLOW_TEST_MARK": "here"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        proc = Proc()
        stat = proc.stat(child.pid)
        assert stat is not None
        assert stat.parent == os.getpid()
        assert (proc.environ(child.pid) or {})["FALLOW_TEST_MARK"] == "here"
        assert proc.user(child.pid) == proc.user(os.getpid())
        assert child.pid in [below.pid for below in proc.descendants(os.getpid())]
        child.communicate("\n", timeout=LIMIT_S)


def test_what_a_process_does_with_a_signal_is_read_from_the_kernel() -> None:
    program = "import signal; signal.signal(signal.SIGUSR1, print); signal.signal(signal.SIGUSR2, signal.SIG_IGN)"
    words = [sys.executable, "-c", f"{program}; print('ready', flush=True); signal.pause()"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        numbers = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)
        assert [Proc().disposition(process.pid, each) for each in numbers] == ["catches", "ignores", "default"]
        process.kill()
        process.wait(LIMIT_S)
        assert Proc().disposition(process.pid, signal.SIGUSR1) is None, "it has ended"


def test_a_process_with_the_mounts_of_the_first_process_is_in_no_container_though_ours_are_our_own(
    tmp_path: pathlib.Path,
) -> None:
    """The unit of systemd gives fallow mounts of its own, and root's processes outside are still root's."""
    for name in ("self", "1", "7", "8"):
        (tmp_path / name / "ns").mkdir(parents=True)
    for name in ("self", "1", "8"):
        (tmp_path / name / "ns/mnt").touch()
    os.link(tmp_path / "1/ns/mnt", tmp_path / "7/ns/mnt")
    found = {pid: Proc(str(tmp_path)).is_in_no_container(pid) for pid in (1, 7, 8, 9)}
    assert found == {1: True, 7: True, 8: False, 9: False}


def child(*words: str, **variables: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-S", "-c", "print('up', flush=True); input()", *words]
    made = subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert made.stdout is not None
    assert made.stdout.readline() == "up\n"
    return made


def test_of_a_command_line_of_a_megabyte_a_thousand_letters_are_shown() -> None:
    """V11"""
    process = child(*["x" * 100_000] * 12)
    try:
        command = Proc().describe(Holder(process.pid, 1)).command
        assert isinstance(command, str)
        assert command.startswith(sys.executable)
        assert len(command) == 1001
        assert os.path.basename(sys.executable) in Proc().called(process.pid)
    finally:
        end(process)


def test_a_claim_is_found_in_an_environment_of_a_megabyte_and_not_in_the_value_of_another_variable() -> None:
    """V11: padding must not hide a claim, and a value can hold any letters but the one that ends it."""
    padding = {f"A{number}": "z" * 100_000 for number in range(12)}
    process = child(
        **padding, NOTE="\nFALLOW_CLAIM=x", XFALLOW_CLAIM="y", FALLOW_CLAIM="GPU-a,GPU-b", ZZ="z" * 70_000
    )
    try:
        assert Proc().environ(process.pid) == {"FALLOW_CLAIM": "GPU-a,GPU-b"}
    finally:
        end(process)
