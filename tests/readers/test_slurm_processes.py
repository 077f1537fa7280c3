"""Which Slurm job a process belongs to, in small trees of /proc."""

import pathlib
import stat

import pytest

from fallow.readers.proc import Proc
from fallow.readers.slurm_processes import Proof, SlurmTrace, slurm_trace


def add(
    root: pathlib.Path,
    pid: int,
    parent: int = 1,
    cgroup: str = "/",
    uid: int = 1000,
    command: str = "x",
    program: pathlib.Path | None = None,
    **environ: str,
) -> None:
    folder = root / str(pid)
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} (x) S {parent} {pid} {pid} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0")
    (folder / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    (folder / "cgroup").write_text(f"0::{cgroup}\n")
    (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode() + b"\0")
    if program is not None:
        (folder / "exe").symlink_to(program)
    (folder / "environ").write_bytes(b"".join(f"{name}={text}\0".encode() for name, text in environ.items()))


@pytest.fixture
def slurmstepd(tmp_path: pathlib.Path) -> pathlib.Path:
    """A program file that only root can have put there."""
    program = tmp_path / "bin" / "slurmstepd"
    program.parent.mkdir()
    program.touch(0o755)
    return program


@pytest.mark.as_root
def test_a_cgroup_counts_before_the_step_above_and_that_before_the_environment(
    tmp_path: pathlib.Path, slurmstepd: pathlib.Path
) -> None:
    add(tmp_path, 1, 0, uid=0)
    add(tmp_path, 10, uid=0, command="slurmstepd: [20.batch]", program=slurmstepd)
    of_slurm = "/system.slice/slurmstepd.scope/job_30/step_0/user/task_0"
    add(tmp_path, 11, 10, of_slurm, SLURM_JOB_ID="40")
    add(tmp_path, 12, 10, SLURM_JOB_ID="40")
    add(tmp_path, 13, 1, SLURM_JOB_ID="40", SLURMD_NODENAME="n1")
    add(tmp_path, 14, 1)
    proc = Proc(str(tmp_path))
    assert slurm_trace(proc, 11) == SlurmTrace("30", Proof.CGROUP)
    assert slurm_trace(proc, 12) == SlurmTrace("20", Proof.STEP)
    assert slurm_trace(proc, 13) == SlurmTrace("40", Proof.ENVIRONMENT, "n1")
    assert slurm_trace(proc, 14) is None
    assert slurm_trace(proc, 99) is None


def test_a_cgroup_or_a_name_that_a_user_has_made_proves_nothing(tmp_path: pathlib.Path) -> None:
    add(tmp_path, 1, 0, uid=0)
    own_slice = "/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_30/step_0"
    add(tmp_path, 11, 1, own_slice, SLURM_JOB_ID="40")
    add(tmp_path, 12, 1, command="slurmstepd: [20.batch]")
    add(tmp_path, 13, 12, SLURM_JOB_ID="40")
    proc = Proc(str(tmp_path))
    assert slurm_trace(proc, 11) == SlurmTrace("40", Proof.ENVIRONMENT)
    assert slurm_trace(proc, 13) == SlurmTrace("40", Proof.ENVIRONMENT)


@pytest.mark.as_root
def test_a_setuid_program_or_another_one_with_the_name_of_a_step_proves_nothing(
    tmp_path: pathlib.Path, slurmstepd: pathlib.Path
) -> None:
    """As `exec -a "slurmstepd: [20.0]" sudo -A`, which is root's by the kernel and runs what its user says."""
    setuid, others = tmp_path / "bin" / "sudo", tmp_path / "hers" / "slurmstepd"
    setuid.touch()
    setuid.chmod(0o755 | stat.S_ISUID)
    others.parent.mkdir(mode=0o777)
    others.parent.chmod(0o777)
    others.touch(0o755)
    add(tmp_path, 1, 0, uid=0)
    programs = (slurmstepd, setuid, others, tmp_path / "gone" / "slurmstepd", None)
    for number, program in enumerate(programs):
        add(tmp_path, 10 + number, uid=0, command="slurmstepd: [20.0]", program=program)
        add(tmp_path, 20 + number, 10 + number, SLURM_JOB_ID="40")
    found = [slurm_trace(Proc(str(tmp_path)), 20 + number) for number in range(len(programs))]
    true, false = SlurmTrace("20", Proof.STEP), SlurmTrace("40", Proof.ENVIRONMENT)
    assert found == [true, false, false, false, false]


@pytest.mark.as_root
def test_the_node_is_that_of_the_proof_and_no_word_of_the_process(
    tmp_path: pathlib.Path, slurmstepd: pathlib.Path
) -> None:
    """Else a process in the cgroup of a job would leave the job by a variable that names another node."""
    add(tmp_path, 1, 0, uid=0)
    add(tmp_path, 10, uid=0, command="slurmstepd: [20.0]", program=slurmstepd, SLURMD_NODENAME="n1")
    add(tmp_path, 11, 10, SLURM_JOB_ID="20", SLURMD_NODENAME="n9")
    cgroups = {
        12: "/system.slice/slurmstepd.scope/job_20/step_0",
        13: "/system.slice/n1_slurmstepd.scope/job_20/step_0",
        14: "/slurm_n1/uid_1000/job_20/step_0",
    }
    for pid, cgroup in cgroups.items():
        add(tmp_path, pid, 1, cgroup, SLURM_JOB_ID="20", SLURMD_NODENAME="n9")
    proc = Proc(str(tmp_path))
    assert slurm_trace(proc, 11) == SlurmTrace("20", Proof.STEP, "n1")
    assert [slurm_trace(proc, pid) for pid in cgroups] == [
        SlurmTrace("20", Proof.CGROUP, node) for node in ("", "n1", "n1")
    ]
