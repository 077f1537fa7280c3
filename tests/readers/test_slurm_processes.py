"""Which Slurm job a process belongs to, in small trees of /proc."""

import pathlib

from fallow.readers.proc import Proc
from fallow.readers.slurm_processes import Proof, SlurmTrace, slurm_trace


def add(
    root: pathlib.Path,
    pid: int,
    parent: int = 1,
    cgroup: str = "/",
    uid: int = 1000,
    command: str = "x",
    **environ: str,
) -> None:
    folder = root / str(pid)
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} (x) S {parent} {pid} {pid} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0")
    (folder / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    (folder / "cgroup").write_text(f"0::{cgroup}\n")
    (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode() + b"\0")
    (folder / "environ").write_bytes(b"".join(f"{name}={text}\0".encode() for name, text in environ.items()))


def test_a_cgroup_counts_before_the_step_above_and_that_before_the_environment(tmp_path: pathlib.Path) -> None:
    add(tmp_path, 1, 0, uid=0)
    add(tmp_path, 10, uid=0, command="slurmstepd: [20.batch]")
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
