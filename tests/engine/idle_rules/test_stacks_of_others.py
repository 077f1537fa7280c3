"""Root has the stacks of people's processes written: it opens no file that their user could not open."""

import os
import pathlib
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable

import pytest

from tests.engine.idle_rules.enforcer_resident import Resident
from tests.engine.idle_rules.test_enforcer import RULE, Start, patrol, start, stop_after_stacks

__all__ = ["patrol", "start"]  # fixtures
pytestmark = pytest.mark.as_root

WORKER = pwd.getpwnam("games")
BECOMES = f"os.setgroups([]); os.setgid({WORKER.pw_gid}); os.setuid({WORKER.pw_uid})"
ENTERS_CONTAINER = "import ctypes; assert ctypes.CDLL(None).unshare(0x00020000) == 0"
BEGINS_AGAIN = """
import mmap
if "LD_PRELOAD" not in os.environ and {library!r}:
    os.environ["LD_PRELOAD"] = {library!r}
    os.execv(sys.executable, sys.orig_argv)
{becomes}
"""
WAITS = """
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
Patrol = Callable[..., Resident]
Begin = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def box(open_folder: pathlib.Path) -> pathlib.Path:
    """A folder of the worker's that everybody may enter."""
    folder = open_folder / "box"
    folder.mkdir()
    os.chown(folder, WORKER.pw_uid, WORKER.pw_gid)
    return folder


@pytest.fixture(params=[BECOMES, ENTERS_CONTAINER], ids=["another user", "root of a container"])
def begin(request: pytest.FixtureRequest, start: Start, box: pathlib.Path) -> Begin:
    """Start a process of somebody else, whose Python everybody can read, wherever that of the tests is."""
    mapped = {line.split()[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines()}
    shared = next((library for library in mapped if "/libpython" in library), None)

    def make(program: str) -> subprocess.Popen[str]:
        folder = tempfile.mkdtemp(dir=box)
        os.chmod(folder, 0o755)
        os.chown(folder, WORKER.pw_uid, WORKER.pw_gid)
        library = "" if shared is None else shutil.copy(shared, folder)
        return start(BEGINS_AGAIN.format(becomes=request.param, library=library) + program)

    return make


def stacks(patrol: Patrol, job: subprocess.Popen[str]) -> str:
    """What came of writing the stacks of a job; it is asked to end afterwards."""
    resident = patrol({**RULE, "dump_stacks": True})
    stop_after_stacks(resident, job)
    *_, words = [why for kind, _, why in resident("events") if kind == "outcome" and "stacks" in why]
    return words


@pytest.mark.more
def test_nobody_has_root_open_a_file_or_learns_whether_it_is_there_by_a_library_that_is_a_link(
    patrol: Patrol, begin: Begin, box: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """What a process has mapped is opened by its name to read it: a link there led anywhere, as to a watchdog."""
    secret = tmp_path / "of root alone"
    secret.mkdir(mode=0o700)
    (secret / "there").touch()
    told = set()
    for name in ("there", "not there"):
        text = NAMES_A_FILE.format(box=str(box), target=str(secret / name))
        told.add(re.sub(r"pid \d+|/\S+", "…", stacks(patrol, begin(text))))
    assert told in ({SHUT}, {FOUND_IN_PROGRAM})


def test_the_stacks_of_others_are_written(patrol: Patrol, begin: Begin, tmp_path: pathlib.Path) -> None:
    words = stacks(patrol, begin(WAITS))
    assert words.startswith("the Python stacks of 1 process are in ")
    (written,) = (tmp_path / "state" / "simulated").glob("stacks-*.txt")
    assert "forgotten" in written.read_text()
    assert written.stat().st_uid == 0
