"""Names and children by which a user would get out of the rules: what a process calls itself decides nothing."""

import os
import pathlib
import select
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from fallow.readers.proc import Proc
from tests.conftest import Fallow
from tests.engine.idle_rules.enforcer_resident import Resident
from tests.engine.idle_rules.test_enforcer import RULE, on
from tests.places import LIMIT_S
from tests.waiting import end, end_group, until

pytestmark = [pytest.mark.as_root, pytest.mark.more]
ADA = 61001
Start = Callable[..., "subprocess.Popen[str]"]
SUDO = """
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>
int main(void) {
    uid_t caller = getuid();
    setresuid(0, 0, 0);
    int child = fork();
    if (child == 0) {
        setresuid(caller, caller, caller);
        printf("%d\\n", getpid());
        fflush(stdout);
    }
    getchar();
    return 0;
}
"""

WITHOUT_FIRST_THREAD = """
#include <pthread.h>
#include <unistd.h>
static void *work(void *nothing) { for (;;) pause(); }
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    pthread_exit(0);
}
"""


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def make(
        argv: list[str], executable: str | None = None, stdin: int = subprocess.DEVNULL
    ) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            argv,
            executable=executable,
            user=ADA,
            group=ADA,
            extra_groups=[],
            start_new_session=True,
            stdout=subprocess.PIPE,
            stdin=stdin,
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            text=True,
        )
        started.append(process)
        return process

    yield make
    for process in started:
        end_group(process)  # each began a session of its own: its children go with it


@pytest.fixture
def patrol(tmp_path: pathlib.Path) -> Iterator[Resident]:
    environ = Fallow(tmp_path).environ
    resident = Resident(environ)
    resident("begin", environ=environ, rules=[RULE])
    yield resident
    resident("end")
    resident.leave()


@pytest.mark.parametrize(
    "name", ["[kworker/0:1]", "fallow", "nvidia-smi", "Xorg", "fallow.keeper", "nvidia-persistenced"]
)
def test_a_name_that_a_process_gave_itself_takes_it_out_of_no_rule(patrol: Resident, start: Start, name: str) -> None:
    """Weak: rules are dodged by argv[0]."""
    job = start([name, "100"], "/usr/bin/sleep")
    ((user, pids, _),) = patrol("jobs", gpus=(on(0, job.pid),))
    assert (user, pids) == (str(ADA), [job.pid])


@pytest.mark.parametrize("name", ["nvidia-smi", "Xorg", "fallow", "env"])
def test_a_name_that_a_program_has_only_in_a_mount_namespace_takes_it_out_of_no_rule(
    patrol: Resident, start: Start, name: str
) -> None:
    """Anybody can mount a program of root's under any name, also in the place of another."""
    where = f"/usr/bin/{name}" if name == "env" else f"/tmp/{name}"
    room = "mount -t tmpfs none /tmp && touch /tmp/nvidia-smi /tmp/Xorg /tmp/fallow"
    job = start(
        [
            "unshare",
            "-Urm",
            "sh",
            "-c",
            f"{room} && mount --bind /bin/bash {where} && exec {where} -c 'echo; read line'",
        ],
        stdin=subprocess.PIPE,
    )
    assert job.stdout is not None
    assert job.stdout.readline() == "\n", "namespaces of users are open here"
    assert os.readlink(f"/proc/{job.pid}/exe") == where
    assert Proc().trusted_names(job.pid) == set()
    assert [pids for _, pids, _ in patrol("jobs", gpus=(on(0, job.pid),))] == [[job.pid]]


def test_a_monitor_of_another_user_that_holds_a_card_is_none(
    patrol: Resident, start: Start, open_folder: pathlib.Path
) -> None:
    """The user's own code can be loaded into a program of root's; a true one holds no card."""
    open_folder.chmod(0o755)
    shutil.copy(os.path.realpath("/usr/bin/sleep"), open_folder / "nvidia-smi")
    job = start([str(open_folder / "nvidia-smi"), "100"])
    assert Proc().trusted_names(job.pid) == {"nvidia-smi"}
    assert [pids for _, pids, _ in patrol("jobs", gpus=(on(0, job.pid),))] == [[job.pid]]


def test_a_display_server_that_becomes_another_program_is_in_the_rules(
    patrol: Resident, start: Start, open_folder: pathlib.Path
) -> None:
    """The same process, by its pid and its birth, is another program after an exec."""
    open_folder.chmod(0o755)
    shutil.copy(os.path.realpath("/bin/bash"), open_folder / "Xorg")
    job = start(
        [str(open_folder / "Xorg"), "-c", "echo; read line; exec bash -c 'echo; read line'"], stdin=subprocess.PIPE
    )
    assert job.stdout is not None
    assert job.stdin is not None
    job.stdout.readline()
    assert patrol("jobs", gpus=(on(0, job.pid),)) == []
    job.stdin.write("\n")
    job.stdin.flush()
    job.stdout.readline()
    assert [pids for _, pids, _ in patrol("jobs", gpus=(on(0, job.pid),))] == [[job.pid]]


def test_a_program_below_one_that_is_called_fallow_is_in_the_rules(patrol: Resident, start: Start) -> None:
    """Weak: rules are dodged by argv[0], also by that of a parent."""
    parent = start(["fallow", "-c", "sleep 100 & echo $!; wait"], "/bin/bash")
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert [pids for _, pids, _ in patrol("jobs", gpus=(on(0, child),))] == [[child]]


@pytest.mark.parametrize(
    "names", [["fallow", "-I"], ["python3", "fallow"], ["python3", "-mfallow.engine.fill.keeper"]]
)
def test_a_program_below_a_setuid_program_with_the_name_of_fallow_is_in_the_rules(
    patrol: Resident, start: Start, open_folder: pathlib.Path, names: list[str]
) -> None:
    """sudo is root, has the name that its caller gave it, and runs the caller's program that asks for a password."""
    sudo = open_folder / "sudo"
    open_folder.chmod(0o755)
    subprocess.run(["cc", "-x", "c", "-o", str(sudo), "-"], input=SUDO, text=True, check=True)
    sudo.chmod(0o4755)
    parent = start(names, str(sudo), stdin=subprocess.PIPE)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert (Proc().uid(parent.pid), Proc().uid(child)) == (0, ADA), "setuid programs run here"
    assert Proc().trusted_names(parent.pid) == {"sudo"}
    assert [pids for _, pids, _ in patrol("jobs", gpus=(on(0, child),))] == [[child]]


def test_a_process_whose_first_thread_has_ended_is_in_the_rules(
    patrol: Resident, start: Start, open_folder: pathlib.Path
) -> None:
    """The kernel shows it as a zombie, and its other threads work on."""
    program = open_folder / "headless"
    open_folder.chmod(0o755)
    compiler = ["cc", "-pthread", "-x", "c", "-o", str(program), "-"]
    subprocess.run(compiler, input=WITHOUT_FIRST_THREAD, text=True, check=True)
    job = start([str(program)])
    until(lambda: _state(job.pid) == "Z")
    ((user, pids, _),) = patrol("jobs", gpus=(on(0, job.pid),))
    assert (user, pids) == (str(ADA), [job.pid])
    patrol("turn", gpus=[(on(0, job.pid),)] * 30)
    assert job.wait(LIMIT_S) == -signal.SIGTERM
    assert patrol("jobs", gpus=(on(0, job.pid),)) == []


def _state(pid: int) -> str:
    stat = Proc().stat(pid)
    return "" if stat is None else stat.state


def test_a_child_called_fallow_does_not_protect_the_job(patrol: Resident, start: Start) -> None:
    """Weak: rules are dodged by argv[0], also by that of a child."""
    job = start(["bash", "-c", "(exec -a fallow sleep 100) & echo; wait"])
    assert job.stdout is not None
    job.stdout.readline()
    patrol("turn", gpus=[(on(0, job.pid),)] * 100)
    job.wait(LIMIT_S)


@pytest.mark.parametrize("kind", ["setuid program", "other user's process"])
def test_a_child_with_another_user_s_rights_does_not_protect_the_job(
    patrol: Resident, start: Start, open_folder: pathlib.Path, kind: str
) -> None:
    """Weak: rules are dodged by a setuid child. One that is another user's for good is left alone."""
    program = open_folder / "program"
    shutil.copy(os.path.realpath("/usr/bin/python3"), program)
    program.chmod(0o4755)
    become = "os.setresuid(0, 0, 0)" if kind == "other user's process" else "pass"
    child = f"import os, time; {become}; print(os.getpid(), os.getresuid(), flush=True); time.sleep(100)"
    job = start(["bash", "-c", f"{program} -I -S -c '{child}' & wait"])
    assert job.stdout is not None
    line = job.stdout.readline()
    pid = int(line.split()[0])
    forever = become != "pass"
    real = 0 if forever else ADA
    assert f"({real}, 0, 0)" in line, "setuid programs run here"
    pidfd = os.pidfd_open(pid)
    try:
        patrol("turn", gpus=[(on(0, job.pid),)] * 100)
        job.wait(LIMIT_S)
        if forever:
            assert not select.select([pidfd], [], [], 0)[0], "it is root's and lives"
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        assert select.select([pidfd], [], [], 10)[0]
    finally:
        os.close(pidfd)


def test_only_the_kernel_s_own_threads_are_the_kernel_s(start: Start) -> None:
    """Weak: kernel threads are known by what the kernel says of them."""
    job = start(["[kworker/0:1]", "100"], "/usr/bin/sleep")
    stat = Proc().stat(job.pid)
    assert stat is not None
    assert not stat.of_kernel
    threads = [each for each in Proc().everybody() if each.of_kernel]
    assert {each.parent for each in threads} <= {0, 2}, "in a pid namespace of one's own there are none"


def test_a_monitor_is_believed_by_its_program_and_not_by_its_name(start: Start, open_folder: pathlib.Path) -> None:
    """Weak: who calls itself nvidia-smi is no monitor to a filler either; a program of root's of that name is."""
    named = start(["nvidia-smi", "100"], "/usr/bin/sleep")
    assert Proc().trusted_names(named.pid) == {os.path.basename(os.path.realpath("/usr/bin/sleep"))}
    open_folder.chmod(0o755)
    real = open_folder / "nvidia-smi"
    shutil.copy(os.path.realpath("/usr/bin/sleep"), real)
    real.chmod(0o755)
    assert "nvidia-smi" in Proc().trusted_names(start([str(real), "100"]).pid)
    open_folder.chmod(0o777)
    assert Proc().trusted_names(start([str(real), "100"]).pid) == set(), "anybody could have put it there"
    open_folder.chmod(0o755)
    os.chown(real, ADA, ADA)
    assert Proc().trusted_names(start([str(real), "100"]).pid) == set()
    ours = subprocess.Popen(
        ["nvitop", "-c", "echo; read line"], executable="/bin/bash", stdout=subprocess.PIPE, stdin=subprocess.PIPE
    )
    assert ours.stdout is not None
    ours.stdout.readline()  # a moment before that it still goes by our name
    try:
        assert "nvitop" in Proc().trusted_names(ours.pid), "our own processes are believed"
    finally:
        end(ours)
