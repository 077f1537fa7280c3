"""A neighbour who means harm: `python -m tests.actuators.claims.neighbour UID DEED WORDS…`, started by root.

Everything is loaded before root is given up. A deed that holds something says so, and holds it until its stdin ends.
"""

import fcntl
import os
import signal
import struct
import sys


def lock(path: str, start: str, length: str, kind: str) -> None:
    """Lock bytes of a file, as claims do (ofd) or as databases do (posix)."""
    fd = os.open(path, os.O_RDWR)
    flock = struct.pack("@hhqqi4x", fcntl.F_WRLCK, 0, int(start), int(length), 0)
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK if kind == "ofd" else fcntl.F_SETLK, flock)
    print("done", flush=True)
    sys.stdin.read()


def lease(path: str) -> None:
    """Make a file that nobody else can open for now."""
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    os.fchmod(fd, 0o666)
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # others would like to open it
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    print("done", flush=True)
    sys.stdin.read()


def access_list(shut_out: int) -> bytes:
    """Return an access list that is open to all but one user, as the kernel wants it: tags, rights, ids."""
    everything, nobody_named = 7, 2**32 - 1
    entries = [(0x01, everything), (0x04, everything), (0x10, everything), (0x20, everything)]
    rows = [(tag, rights, nobody_named) for tag, rights in entries]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in sorted([*rows, (0x02, 0, shut_out)]))


def shut_out(name: str, path: str, uid: str) -> None:
    """Put one user on the access list of a file or a folder of hers, as nobody."""
    os.setxattr(path, f"system.posix_acl_{name}", access_list(int(uid)))


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
    "lease": lease,
    "shut out": shut_out,
    "plant": plant,
    "remove": os.unlink,
    "rename": os.rename,
    "link": os.link,
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
