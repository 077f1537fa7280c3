"""The files with the stacks of jobs, of which the newest are kept: `stacks-PID-BIRTH.txt`."""

import os
from contextlib import suppress

_MOST_FILES = 100


def stack_file_name(pid: int, birth: int) -> str:
    """Return the name of the file for a job."""
    return f"stacks-{pid}-{birth}.txt"


def remove_oldest(folder: str) -> None:
    """Remove the oldest files with stacks, until there are no more than so many."""
    with suppress(OSError), os.scandir(folder) as entries:
        files = [entry for entry in entries if entry.name.startswith("stacks-") and entry.name.endswith(".txt")]
        files.sort(key=lambda entry: -entry.stat(follow_symlinks=False).st_mtime_ns)
        for entry in files[_MOST_FILES:]:
            os.unlink(entry.path)
