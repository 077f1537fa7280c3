"""A real Slurm on loopback: one controller and two nodes of 4 GPUs each, that are files without a card behind them.

All its daemons and jobs run in a process namespace of their own, which ends with the one who brought it up: nothing
of it can be left behind. Ports, munge and folders are its own, so several run side by side. Its commands are run by
tests and by fallow from outside, with SLURM_CONF in their environment.
"""

import os
import pathlib
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.places import LIMIT_S
from tests.ports import free_ports
from tests.waiting import until

USERS = ("games", "news")
"""Two users that every Debian has: Slurm starts jobs only of users that it can look up."""
NODES = ("n1", "n2")
GPUS = 4
_PROGRAMS = ("slurmctld", "slurmd", "scontrol", "squeue", "scancel", "sbatch", "srun", "munged")
_TOOLS = ("setpriv", "unshare", "nsenter", "bash")
_FIRST = "while :; do sleep 1000 & wait; done"
"""The first process of the namespace: bash reaps all that end in there."""
_CONF = """
ClusterName=fallow
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={controller}
AuthType=auth/munge
AuthInfo=cred_expire=5,socket={folder}/munge/socket
CryptoType=crypto/munge
CommunicationParameters=NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=3
ReturnToService=2
SchedulerParameters=bf_interval=2,sched_interval=2
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
SlurmctldTimeout=60
SlurmdTimeout=600
{more}
{nodes}
PartitionName=normal Nodes=n1,n2 Default=YES PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE State=UP
PartitionName=scavenger Nodes=n1,n2 PriorityTier=1 PreemptMode=REQUEUE GraceTime=0 MaxTime=INFINITE State=UP
"""
_NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=16 RealMemory=1000 Gres={gres}"


class Slurm:
    """A cluster that runs until it is closed."""

    def __init__(self, more: str = "", gres: str = f"gpu:{GPUS}") -> None:
        """`more` is what else an administrator writes into slurm.conf; `gres` is what each node has."""
        missing = [name for name in (*_PROGRAMS, *_TOOLS) if not shutil.which(name, path=_path())]
        if missing or os.geteuid() != 0:
            pytest.skip(f"Slurm needs root, and: {', '.join(missing)}; try scripts/engines slurm")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fallow-slurm-"))
        self.conf = self.folder / "slurm.conf"
        self.environ = {"PATH": _path(), "SLURM_CONF": str(self.conf), "LC_ALL": "C.UTF-8"}
        """What a command needs to find this cluster."""
        self._clients: list[subprocess.Popen[str]] = []
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._space: subprocess.Popen[bytes] | None = None
        try:
            self._bring_up(more, gres)
        except BaseException:
            self.close()
            raise

    def __call__(self, *words: str, user: str = "root") -> "subprocess.CompletedProcess[str]":
        """Run one of Slurm's commands to its end, as a user."""
        return subprocess.run(
            [*_as_user(user), *words],
            env=self.environ,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def said(self, *words: str, user: str = "root") -> str:
        """Run one of Slurm's commands, which must succeed; return what it printed."""
        done = self(*words, user=user)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout.strip()

    def start(self, *words: str, user: str = "root") -> "subprocess.Popen[str]":
        """Start one of Slurm's commands that goes on, as srun does."""
        process = subprocess.Popen(
            [*_as_user(user), *words],
            env=self.environ,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._clients.append(process)
        return process

    def submit(self, *options: str, line: str = "exec sleep 100000", user: str = USERS[0]) -> str:
        """Submit a batch job that runs a line of shell; return its id."""
        words = ("sbatch", "--parsable", "--chdir=/", "--output=/dev/null", *options, f"--wrap={line}")
        return self.said(*words, user=user)

    def running(self, *options: str, line: str = "exec sleep 100000", user: str = USERS[0]) -> str:
        """Submit a batch job, and wait until it runs; return its id."""
        job = self.submit(*options, line=line, user=user)
        until(lambda: self.state(job), lambda state: state == "RUNNING", pause_s=0.1)
        return job

    def state(self, job: str) -> str:
        """Return the state of a job; empty if the controller has forgotten it."""
        return self("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T").stdout.strip()

    def field(self, job: str, name: str) -> str:
        """Return one field of a job, as scontrol prints it in a line of its own words."""
        words = self.said("scontrol", "--details", "show", "job", job).split()
        return next((word.partition("=")[2] for word in words if word.startswith(f"{name}=")), "")

    def stop_controller(self) -> None:
        """End the controller, which saves what it knows: one that is killed forgets the jobs of its last seconds."""
        self._signal("slurmctld", signal.SIGTERM)
        self._daemons.pop("slurmctld").wait(LIMIT_S)

    def start_controller(self) -> None:
        """Start the controller, and wait until it answers."""
        self._start("slurmctld", "slurmctld", "-D", "-f", str(self.conf))
        until(lambda: self("scontrol", "ping").returncode == 0, pause_s=0.1)

    def close(self) -> None:
        """End all of it: with the first process of a namespace the kernel kills every other one in there."""
        for client in self._clients:
            for pid in _in_session(client.pid):  # salloc gives its command a process group of its own
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            client.wait(LIMIT_S)
            for stream in (client.stdin, client.stdout, client.stderr):
                if stream is not None:
                    with suppress(BrokenPipeError):  # what was not taken from stdin
                        stream.close()
        if self._space is not None:
            self._space.kill()
            self._space.wait(LIMIT_S)
        for daemon in self._daemons.values():
            daemon.kill()
            daemon.wait(LIMIT_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _bring_up(self, more: str, gres: str) -> None:
        self.folder.chmod(0o755)
        controller, *ports = free_ports(1 + len(NODES))
        host = socket.gethostname().partition(".")[0]
        nodes = (
            _NODE.format(name=name, host=host, port=port, gres=gres) for name, port in zip(NODES, ports, strict=True)
        )
        self.conf.write_text(
            _CONF.format(host=host, controller=controller, folder=self.folder, more=more, nodes="\n".join(nodes))
        )
        (self.folder / "cgroup.conf").write_text("")
        self._make_cards(gres)
        (self.folder / "state").mkdir()
        # The namespace ends with unshare, and unshare with the process that runs the tests, however that ends.
        words = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount-proc", "--pid", "--fork", "--kill-child"]
        self._space = subprocess.Popen(
            [*words, "bash", "-c", _FIRST], stdin=subprocess.DEVNULL, env={"PATH": _path()}
        )
        until(lambda: self._first_process() is not None)
        self._start_munge()
        self._start("slurmctld", "slurmctld", "-D", "-f", str(self.conf))
        for name in NODES:
            self._start(name, "slurmd", "-D", "-N", name, "-f", str(self.conf))
        self._wait_until_it_works(gres)

    def _make_cards(self, gres: str) -> None:
        """Make the device files: Slurm numbers the GPUs of a job only where they are some."""
        kind = gres.split(":")[1] if gres.count(":") == 2 else ""
        typed = f"Type={kind} " if kind else ""
        for number in range(GPUS):
            os.mknod(self.folder / f"nvidia{number}", stat.S_IFCHR | 0o666, os.makedev(195, number))
        line = f"NodeName={','.join(NODES)} Name=gpu {typed}File={self.folder}/nvidia[0-{GPUS - 1}]\n"
        (self.folder / "gres.conf").write_text(line)

    def _start_munge(self) -> None:
        folder = self.folder / "munge"
        folder.mkdir()
        (folder / "key").write_bytes(os.urandom(128))
        (folder / "key").chmod(0o400)
        for path in (folder, folder / "key"):
            shutil.chown(path, "munge", "munge")
        files = {"socket": "socket", "key-file": "key", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        words = [f"--{option}={folder / name}" for option, name in files.items()]
        self._start("munged", *_as_user("munge"), "munged", "--foreground", "--force", *words)
        until((folder / "socket").exists)

    def _wait_until_it_works(self, gres: str) -> None:
        """Wait until a job ran on all cards: the nodes are listed as idle before they can run one."""
        words = ("srun", f"--nodes={len(NODES)}", f"--gres={gres}", "--chdir=/", "true")
        until(lambda: self(*words), lambda done: done.returncode == 0, pause_s=0.1)
        until(lambda: self("squeue", "--noheader").stdout, lambda jobs: not jobs, pause_s=0.05)

    def _start(self, daemon: str, *words: str) -> None:
        first = self._first_process()
        with open(self.folder / f"{daemon}.out", "ab") as log:
            self._daemons[daemon] = subprocess.Popen(
                ["nsenter", "--pid", "--mount", f"--target={first}", "--", *words],
                env={"PATH": _path(), "SLURM_CONF": str(self.conf)},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _signal(self, daemon: str, number: signal.Signals) -> None:
        """Signal the daemon itself, which is the child of the nsenter that was started."""
        pid = until(lambda: _child_of(self._daemons[daemon].pid))
        os.kill(pid or 0, number)

    def _first_process(self) -> int | None:
        assert self._space is not None
        if self._space.poll() is not None:
            pytest.skip("no process namespace can be made here")
        return _child_of(self._space.pid)


def _path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"


def _as_user(name: str) -> list[str]:
    return [] if name == "root" else ["setpriv", f"--reuid={name}", f"--regid={name}", "--clear-groups", "--"]


def _child_of(parent: int) -> int | None:
    return next((pid for pid, fields in _processes() if int(fields[1]) == parent), None)


def _in_session(session: int) -> list[int]:
    return [pid for pid, fields in _processes() if int(fields[3]) == session]


def _processes() -> Iterator[tuple[int, list[str]]]:
    """Yield every process, with what its stat says behind its name."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            yield int(name), pathlib.Path(f"/proc/{name}/stat").read_text(errors="replace").rpartition(")")[2].split()
