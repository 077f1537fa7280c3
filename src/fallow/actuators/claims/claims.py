"""Claim a GPU for one launch, or mark it as filled, for exactly as long as any process of the job or filler lives.

Each GPU has one file, named by its UUID, mode 0666. A claim is a lock on its byte 0, and the mark of a filler one on
its byte 1, held by an open file that the job inherits. So the kernel ends a claim with the job's last process,
however that ends, and nothing is left to clean up. The text in the file is a note, which any user can write: only the
lock decides.

    byte 0   the claim, exclusive, or shared for --shared     at 0     who has claimed it
    byte 1   the filler, while it is on the GPU               at 1024  which filler it is
                                                              at 2048  until when a pick reserves the GPU:
                                                                       nanoseconds since boot, little-endian

A note is one line: pid, birth, since when in milliseconds of the epoch, and program; `-` for what is not known.

A filler marks a GPU and then reads the claims; a launch claims it and then reads the marks. So one of the two sees
the other.
"""

import os
from contextlib import suppress
from fcntl import F_DUPFD, fcntl

from fallow.actuators.claims.folder import ClaimFolder
from fallow.actuators.files import ofd_locks
from fallow.core.reservations import Claim, Note
from fallow.core.units import is_number, printable

CLAIM, FILLER = 0, 1
PICKED_FOR_S = 10.0
_NOTE_BYTES = 1024
_PICKED_AT = 2 * _NOTE_BYTES
_LONGEST_PROGRAM = 200
_MOST_PIDS = 2**22
_LAST_MS = 4e12
_OUT_OF_THE_WAY = 400  # shells and scripts use low descriptors themselves, and would close the claim


class Held:
    """A claim or a mark of this process."""

    def __init__(self, fd: int, byte: int) -> None:
        self._fd = fd
        self._byte = byte
        self._pid = os.getpid()

    def hand_to_job(self) -> None:
        """Let the next program that this process becomes or starts inherit it."""
        try:
            moved = fcntl(self._fd, F_DUPFD, _OUT_OF_THE_WAY)
        except OSError:  # fewer descriptors allowed than that
            moved = os.dup(self._fd)
        os.close(self._fd)
        self._fd = moved
        os.set_inheritable(moved, True)

    def end(self) -> None:
        """End it now, also for every process that inherited it; a forked child only closes its own copy."""
        if os.getpid() == self._pid:
            ofd_locks.release(self._fd, self._byte)
        os.close(self._fd)


def make_room() -> None:
    """Make room for the descriptor of a claim before there are threads: beside them, that takes the kernel 15 ms."""
    with suppress(OSError):
        os.close(fcntl(0, F_DUPFD, _OUT_OF_THE_WAY))


def take(folder: ClaimFolder, uuid: str, note: Note, byte: int = CLAIM, *, shared: bool = False) -> Held | None:
    """Claim a GPU, or mark it as filled; return None if another process has."""
    while True:
        fd = folder.open(uuid)
        if not ofd_locks.take(fd, byte, shared=shared):
            os.close(fd)
            return None
        if folder.has(uuid, fd):
            with suppress(OSError):  # on a full disk the lock works without its note
                os.pwrite(fd, written(note).ljust(_NOTE_BYTES), byte * _NOTE_BYTES)
            return Held(fd, byte)
        os.close(fd)  # the file was removed meanwhile: a lock on it excludes no process
        folder.refresh()


def claim_on(fd: int) -> Claim | None:
    """Return the claim on the GPU of this file, with what its note says; None if there is none. Takes nothing."""
    kind = ofd_locks.held(fd, CLAIM)
    if kind is None:
        return None
    note = _note_at(fd, CLAIM)
    return Claim(kind == "shared", note.pid, None, note.program, note.since_wall_s, note.birth)


def filler_on(fd: int) -> Note | None:
    """Return what the note says of the filler on the GPU of this file; None if there is no mark. Takes nothing."""
    return None if ofd_locks.held(fd, FILLER) is None else _note_at(fd, FILLER)


def is_picked(fd: int, now_s: float) -> bool:
    """Return whether a pick took the GPU in the last seconds. A time from before a reboot does not count."""
    raw = os.pread(fd, 8, _PICKED_AT)
    return len(raw) == 8 and 0 < int.from_bytes(raw, "little") / 1e9 - now_s <= PICKED_FOR_S


def note_pick(fd: int, now_s: float) -> None:
    """Ask others to avoid the GPU for some seconds."""
    until_ns = int((now_s + PICKED_FOR_S) * 1e9)
    with suppress(OSError):  # on a full disk the pick works without its reservation
        os.pwrite(fd, until_ns.to_bytes(8, "little"), _PICKED_AT)


def written(note: Note) -> bytes:
    """Return a note as a line of limited length."""
    since_ms = None if note.since_wall_s is None else round(note.since_wall_s * 1000)
    words = ("-" if word is None else str(word) for word in (note.pid, note.birth, since_ms))
    return f"{' '.join(words)} {printable(note.program or '-')[:_LONGEST_PROGRAM]}\n".encode()


def understood(line: bytes) -> Note:
    """Return what a note says, as far as it makes sense."""
    words = line.decode(errors="replace").rstrip("\n").split(" ", 3)
    pid, birth, since_ms, program = [*words, "", "", ""][:4]
    return Note(
        int(pid) if is_number(pid) and 0 < int(pid) < _MOST_PIDS else None,
        int(birth) if is_number(birth) else None,
        None if program in ("", "-") else printable(program)[:_LONGEST_PROGRAM],
        int(since_ms) / 1000 if is_number(since_ms) and int(since_ms) < _LAST_MS else None,
    )


def _note_at(fd: int, byte: int) -> Note:
    return understood(os.pread(fd, _NOTE_BYTES, byte * _NOTE_BYTES).partition(b"\n")[0])
