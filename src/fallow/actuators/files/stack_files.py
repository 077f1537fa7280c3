"""The files with the stacks of jobs, of which some are kept: `stacks-USER-PID-BIRTH.txt`.

Who has many jobs stopped would fill the disk with them, on which the journal and history are too. So what all files
take is limited, and where it is too much, the oldest go of the user whose files take most: those of others stay.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress

from fallow.core.value import value

_MOST_BYTES = 64 << 20
_LEAST_BYTES = 4096  # what a file takes however short it is
_NAMED = re.compile(r"stacks-(?:([A-Za-z_][A-Za-z0-9_]*)-)?[0-9]+-[0-9]+(?:-[0-9]+)?\.txt", re.ASCII)
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_]", re.ASCII)
_LONGEST_USER = 64
_NO_ACCOUNT = "_"  # one person may have thousands of users without an account


@value
class _Kept:
    name: str
    user: str
    size_bytes: int
    written_ns: int


def stack_file_name(user: str, pid: int, birth: int) -> str:
    """Return the name of the file for a job of this user."""
    word = _NO_ACCOUNT if user.isdigit() else _NOT_IN_A_NAME.sub("_", user)[:_LONGEST_USER]
    return f"stacks-{word if word[:1].isalpha() else f'_{word}'}-{pid}-{birth}.txt"


def remove_oldest(folder: str, most_bytes: int = _MOST_BYTES) -> None:
    """Remove files with stacks until those that are left take no more than so much."""
    by_user: dict[str, list[_Kept]] = {}
    for file in sorted(_kept(folder), key=lambda file: -file.written_ns):
        by_user.setdefault(file.user, []).append(file)
    sizes = {user: sum(file.size_bytes for file in files) for user, files in by_user.items()}
    while sum(sizes.values()) > most_bytes:
        most = max(sizes, key=lambda user: sizes[user])
        oldest = by_user[most].pop()
        sizes[most] -= oldest.size_bytes
        with suppress(OSError):
            os.unlink(os.path.join(folder, oldest.name))


def _kept(folder: str) -> Iterator[_Kept]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            named = _NAMED.fullmatch(entry.name)
            if named is not None:
                with suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    yield _Kept(entry.name, named[1] or "", max(found.st_size, _LEAST_BYTES), found.st_mtime_ns)
