"""The stacks of a job are written before it is asked to end, also for other users, and never through a link."""

import os
import pathlib
import pwd
import re
import shutil
import signal
import tempfile
from collections.abc import Callable

import pytest

from tests.engine.idle_rules.test_real_processes import Start, Started, machine, pass_until, slowly, start
from tests.engine.idle_rules.test_rules import ASK_S, RULE
from tests.harness import Machine
from tests.places import LIMIT_S
from tests.scripted import ProcOnTheHost

__all__ = ["machine", "start"]  # fixtures
READER = pwd.getpwnam("games")


def stacks(machine: Machine, process: Started) -> str:
    """What came of writing the stacks of a job, which is asked to end afterwards."""
    machine.gpu(0).held_by(process.pid)
    machine.configure(slowly(f"{RULE}dump_stacks = true\n"))
    machine.pass_(seconds=ASK_S)
    pass_until(machine, lambda: machine.said("stopping "))
    assert process.wait(LIMIT_S) == -signal.SIGTERM
    *_, words = [e.because for e in machine.events() if e.kind == "outcome" and "stacks" in e.because]
    return words


def test_stacks_are_written_before_a_job_is_asked(machine: Machine, start: Start) -> None:
    stacks(machine, start("def forgotten():\n    signal.pause()\nforgotten()"))
    (written,) = (machine.folder / "state").glob("stacks-*.txt")
    assert "forgotten" in written.read_text()


BECOMES = f"os.setgroups([]); os.setgid({READER.pw_gid}); os.setuid({READER.pw_uid})"
ENTERS_CONTAINER = "import ctypes; assert ctypes.CDLL(None).unshare(0x00020000) == 0"
BEGINS_AGAIN = """
import mmap
if "LD_PRELOAD" not in os.environ and {library!r}:
    os.environ["LD_PRELOAD"] = {library!r}
    os.execv(sys.executable, sys.orig_argv)
{becomes}
"""
WAITS_AS_ANOTHER = """
def forgotten():
    print('ready', flush=True)
    signal.pause()
forgotten()
"""
NAMES_A_FILE = """
os.mkdir(folder := {box!r} + f"/{{os.getpid()}}")
library = os.environ.get("LD_PRELOAD") or folder + "/libpython3.so"
if not os.path.exists(library):
    with open(library, "wb") as file:
        file.write(b"\\x7fELF" + bytes(8192))
    with open(library, "rb") as file:
        held = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE)
os.unlink(library)
os.symlink({target!r}, library + " (deleted)")
print('ready', flush=True)
signal.pause()
"""
SHUT = (
    "no stacks: py-spy could not read …: Permission Denied: Try running again with elevated permissions by going"
    " 'sudo env \"PATH=$PATH\" !!'"
)
FOUND_IN_PROGRAM = "the Python stacks of 1 process are in …"
"""What comes of it where Python needs no such library: py-spy finds all in its program."""
Begin = Callable[..., Started]


@pytest.fixture(params=[BECOMES, ENTERS_CONTAINER], ids=["another user", "root of a container"])
def begin(request: pytest.FixtureRequest, start: Start, open_folder: pathlib.Path) -> Begin:
    """Start a process of somebody else, whose Python everybody can read, wherever that of the tests is."""
    mapped = {line.split()[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines()}
    shared = next((library for library in mapped if "/libpython" in library), None)

    def make(program: str) -> Started:
        folder = tempfile.mkdtemp(dir=open_folder)
        os.chmod(folder, 0o755)
        os.chown(folder, READER.pw_uid, READER.pw_gid)
        library = "" if shared is None else shutil.copy(shared, folder)
        return start(BEGINS_AGAIN.format(becomes=request.param, library=library) + program)

    return make


@pytest.mark.as_root
@pytest.mark.more
def test_nobody_has_root_open_a_file_or_learns_whether_it_is_there_by_a_library_that_is_a_link(
    begin: Begin, open_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """What a process has mapped is opened by its name to read it: a link there led anywhere, as to a watchdog."""
    secret, box = tmp_path / "of root alone", open_folder / "their box"
    secret.mkdir(mode=0o700)
    (secret / "there").touch()
    box.mkdir()
    os.chown(box, READER.pw_uid, READER.pw_gid)
    told = set()
    for name in ("there", "not there"):
        (tmp_path / name).mkdir()
        machine = Machine(tmp_path / name, proc=ProcOnTheHost())
        text = NAMES_A_FILE.format(box=str(box), target=str(secret / name))
        told.add(re.sub(r"pid \d+|/\S+", "…", stacks(machine, begin(text))))
        machine.close()
    assert told in ({SHUT}, {FOUND_IN_PROGRAM})


@pytest.mark.as_root
def test_the_stacks_of_others_are_written(machine: Machine, begin: Begin) -> None:
    words = stacks(machine, begin(WAITS_AS_ANOTHER))
    assert words.startswith("the Python stacks of 1 process are in ")
    (written,) = (machine.folder / "state").glob("stacks-*.txt")
    assert "forgotten" in written.read_text()
    assert written.stat().st_uid == 0
