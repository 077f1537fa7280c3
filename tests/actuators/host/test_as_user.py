"""Files are used as another user: with that user's rights alone, and in the calling thread alone."""

import os
import pathlib
import subprocess
import sys

import pytest

READS = """
import os, sys, threading
from fallow.actuators.host.as_user import in_the_name_of
from tests.places import LIMIT_S

def reads():
    try:
        with open(sys.argv[1]):
            return True
    except PermissionError:
        return False

os.setgroups([0, 4242])
go, elsewhere = threading.Event(), []
thread = threading.Thread(target=lambda: (go.wait(), elsewhere.append(reads())))
thread.start()
with in_the_name_of(65534, 65534):
    within = reads()
    go.set()
    thread.join(LIMIT_S)
print(within, elsewhere, reads(), sorted(os.getgroups()))
"""


@pytest.mark.as_root
def test_no_group_of_the_daemon_opens_a_file_to_the_user_it_acts_for(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "of the group"
    file.write_text("secret")
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        folder.chmod(folder.stat().st_mode | 0o711)
    os.chown(file, 0, 4242)
    file.chmod(0o640)
    done = subprocess.run([sys.executable, "-c", READS, str(file)], capture_output=True, text=True, check=True)
    assert done.stdout == "False [True] True []\n"
