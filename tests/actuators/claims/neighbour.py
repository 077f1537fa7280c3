"""A neighbour who means harm: `python -m tests.actuators.claims.neighbour UID DEED WORDS…`, started by root.

Everything is loaded before root is given up. A deed that holds something says so, and holds it until its stdin ends.
"""

import fcntl
import os
import struct
import sys


def lock(path: str, start: str, length: str, kind: str) -> None:
    """Lock bytes of a file, as claims do (ofd) or as databases do (posix)."""
    fd = os.open(path, os.O_RDWR)
    flock = struct.pack("@hhqqi4x", fcntl.F_WRLCK, 0, int(start), int(length), 0)
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK if kind == "ofd" else fcntl.F_SETLK, flock)
    print("done", flush=True)
    sys.stdin.read()


def plant(kind: str, path: str) -> None:
    """Put something in the place of a file."""
    match kind:
        case "pipe":
            os.mkfifo(path)
            os.chmod(path, 0o666)
        case "folder":
            os.mkdir(path)
        case "link":
            os.symlink("/etc/passwd", path)
        case "shut":
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
        case "open":
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
            os.chmod(path, 0o666)
        case "claims":
            os.mkdir(path)
            os.chmod(path, 0o1777)
        case _:
            raise ValueError(kind)


ACTIONS = {
    "lock": lock,
    "plant": plant,
    "remove": os.unlink,
    "rename": os.rename,
}


def main() -> None:
    """Become the neighbour, then do it."""
    uid = int(sys.argv[1])
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.umask(0o022)
    ACTIONS[sys.argv[2]](*sys.argv[3:])


if __name__ == "__main__":
    main()
