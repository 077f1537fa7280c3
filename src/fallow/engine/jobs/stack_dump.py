"""Write the Python stacks of a job to a file."""

import os
from collections.abc import Mapping, Sequence

from fallow.actuators.files.atomic_file import replace_file
from fallow.actuators.files.own_folder import own_folder
from fallow.actuators.files.stack_files import remove_oldest, stack_file_name
from fallow.actuators.host import become_user
from fallow.actuators.process import py_spy
from fallow.actuators.process.programs import Ran
from fallow.core.account import Account
from fallow.core.errors import NotPermitted
from fallow.core.findings import Outcome
from fallow.core.process import Process
from fallow.engine.machine.world import World
from fallow.readers.accounts import account
from fallow.readers.proc import Proc

LIMIT_S = 30.0
_NOBODY = 65534
WORDS = "write its Python stacks to a file"


def write_stacks(world: World, processes: Sequence[Process], first: Process) -> Outcome:
    """Write the stacks of processes of a job to a new file in the state folder; the outcome names the file.

    `first` is the process by which the job is known. Of the files of earlier jobs only the newest stay.
    """
    try:
        environ = py_spy.with_ours(world.environ)
        read, left_out = py_spy.stacks(processes, world.proc, environ, _LooksAs(world.proc))
        if not read:
            return Outcome(True, f"no stacks: {left_out or 'the job has no Python process that could be read'}")
        path = os.path.join(own_folder(world.state_folder), stack_file_name(first.pid, first.birth))
        replace_file(path, "\n\n".join(read) + "\n")
        remove_oldest(world.state_folder)
    except Exception as error:  # noqa: BLE001  whatever breaks here, the job is asked all the same
        return Outcome(False, f"no stacks: {error}")
    many = "1 process" if len(read) == 1 else f"{len(read)} processes"
    return Outcome(True, f"the Python stacks of {many} are in {path}" + (f"; {left_out}" if left_out else ""))


class _LooksAs:
    """Runs py-spy for root with the right to look into processes, and else with those of the user of each process."""

    def __init__(self, proc: Proc) -> None:
        self._proc = proc

    def __call__(self, pid: int, command: Sequence[str], environ: Mapping[str, str]) -> Ran:
        """Run it. A process may have two users, as one of a setuid program has: it is not looked into."""
        uid = self._proc.uid(pid)
        if os.geteuid() != 0 or (uid == 0 and self._proc.is_in_no_container(pid)):
            return py_spy.as_ourselves(pid, command, environ)
        if uid is None:
            raise NotPermitted(f"pid {pid} has two users")
        # Root of a container is nobody here: the links that its processes name lead out of it.
        who = None if uid == 0 else account(uid)
        who = who or Account("nobody", uid or _NOBODY, _NOBODY, "/", "")
        return become_user.run_as(who, command, {"PATH": environ["PATH"]}, py_spy.LIMIT_S, environ, traces=True)
