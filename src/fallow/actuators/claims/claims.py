"""Claim a GPU for one launch, for exactly as long as any process of its job lives.

Each GPU has one file. A claim is a lock on one byte of it, held by an open file that the job inherits. So the kernel
ends the claim with the job's last process, however that ends, and nothing is left to clean up. The text in the file
(who claims the GPU, until when a pick reserves it) is a label: any user can write it, so only the lock decides.

The file of a GPU, named by its UUID, has mode 0666:

    bytes 0 to 4095      the label of the claim, JSON padded with spaces: pid, birth, since, command
    bytes 4096 to 4103   until when a pick reserves the GPU: nanoseconds since boot, little-endian
    bytes 8192 to 12287  the label of the filler, as that of the claim
    lock on 10**9 to now         the place of a launch that waits, or shared of one that tries once: see queue.py
    lock on CLAIM_BYTE (2**62)   the claim, shared for --shared
    lock on FILLER_BYTE          the filler, while it is on the GPU
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fcntl import F_DUPFD
from fcntl import fcntl as fcntl_call
from functools import cached_property, lru_cache

from fallow.actuators.claims.folder import GATE, ClaimFolder, FileRefused
from fallow.actuators.files import ofd_locks
from fallow.core.reservations import Claim
from fallow.core.units import printable

CLAIM_BYTE = 2**62  # the bytes before it are places in the queue, numbered by the time of arrival
FILLER_BYTE = CLAIM_BYTE + 1
_LABEL_BYTES = 4096
_RESERVATION_AT = _LABEL_BYTES
_OLDEST_TICKET = 10**9  # no launch waits in the first second after boot
_MOST_LOOKED_AT = 256  # locks in a queue
GATE_BYTE = 0
_GATE_PATIENCE_S = 2.0
_LONGEST_COMMAND = 200
_TRIES = 50  # in case the file is removed again and again
_END_OF_TIME_S = 4e9
_MOST_PIDS = 2**22
_OUT_OF_THE_WAY = 400  # shells and scripts use low descriptors themselves, and would close the claim

RESERVED_FOR_S = 10.0


class ClaimFile:
    """The open claim file of one GPU."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def close(self) -> None:
        """Close the file; a claim or ticket taken through it ends, unless a job inherited it."""
        os.close(self.fd)

    @cached_property
    def identity(self) -> tuple[int, int]:
        """Return the device and the inode, by which the kernel's table of locks names the file."""
        facts = os.fstat(self.fd)
        return facts.st_dev, facts.st_ino

    def held(self) -> ofd_locks.Lock | None:
        """Return the lock that claims the GPU, without taking it; None if there is none."""
        return ofd_locks.other(self.fd, CLAIM_BYTE, CLAIM_BYTE)

    def claim(self) -> Claim | None:
        """Return the claim on the GPU, of which only is known whether it is shared; None if there is none."""
        held = self.held()
        return None if held is None else Claim(held.shared)

    def is_untouched(self, *, but_for_filler: bool = False) -> bool:
        """Return whether there is no claim, no place in the queue and no mark of a filler, or none but that mark."""
        return ofd_locks.other(self.fd, _OLDEST_TICKET, CLAIM_BYTE if but_for_filler else FILLER_BYTE) is None

    def label(self) -> Claim:
        """Return what the label says of the claim. Any user could have written it."""
        return read_label(False, os.pread(self.fd, _LABEL_BYTES, 0))

    def places(self, now_s: float, before: int = CLAIM_BYTE) -> Iterator[ofd_locks.Lock]:
        """Yield the places in the queue before a ticket, up to a limit.

        A place is one byte between boot and now. Any other lock there is not a place.
        """
        ranges = [(_OLDEST_TICKET, min(before - 1, int(now_s * 1e9)))]
        for _ in range(_MOST_LOOKED_AT):
            if not ranges:
                return
            first, last = ranges.pop()
            found = ofd_locks.other(self.fd, first, last)
            if found is None:
                continue
            ranges += [(found.last + 1, last), (first, found.start - 1)]
            if found.start == found.last:
                yield found

    def reserved(self, now_s: float) -> bool:
        """Return whether a pick took it in the last seconds. A time from before a reboot does not count."""
        raw = os.pread(self.fd, 8, _RESERVATION_AT)
        left_s = int.from_bytes(raw, "little") / 1e9 - now_s
        return len(raw) == 8 and 0 < left_s <= RESERVED_FOR_S

    def reserve(self, now_s: float) -> None:
        """Ask others to avoid it for some seconds."""
        until_ns = int((now_s + RESERVED_FOR_S) * 1e9)
        with suppress(OSError):  # on a full disk the pick works without its reservation
            os.pwrite(self.fd, until_ns.to_bytes(8, "little"), _RESERVATION_AT)


class HeldClaim:
    """A claim of this process."""

    def __init__(self, uuid: str, card: ClaimFile) -> None:
        self.uuid = uuid
        self._card = card
        self._pid = os.getpid()

    def hand_to_job(self) -> None:
        """Let the next program that this process becomes or starts inherit the claim."""
        try:
            moved = fcntl_call(self._card.fd, F_DUPFD, _OUT_OF_THE_WAY)
        except OSError:  # fewer descriptors allowed than that
            moved = os.dup(self._card.fd)
        os.close(self._card.fd)
        self._card.fd = moved
        os.set_inheritable(moved, True)

    def end(self) -> None:
        """End the claim now, also for every process that inherited it; a forked child only closes its own copy."""
        if os.getpid() == self._pid:
            ofd_locks.release(self._card.fd, CLAIM_BYTE)
        self._card.close()


def take(folder: ClaimFolder, uuid: str, claim: Claim) -> HeldClaim | None:
    """Claim a GPU; return None if it is claimed already."""
    for _ in range(_TRIES):
        card = ClaimFile(folder.open(uuid))
        if not ofd_locks.take(card.fd, CLAIM_BYTE, shared=claim.shared):
            card.close()
            return None
        if folder.still_there(uuid, card.identity):
            _write_label(card.fd, claim)
            return HeldClaim(uuid, card)
        card.close()  # the file was removed meanwhile: a lock on it excludes no process
        folder.refresh()
    raise FileRefused(f"its file {folder.path}/{uuid} is removed as often as it is made", None)


@contextmanager
def gate(
    folder: ClaimFolder,
    now_s: Callable[[], float],
    sleep: Callable[[float], None],
    patience_s: float = _GATE_PATIENCE_S,
) -> Iterator[bool]:
    """Let one process in at a time, briefly. After some seconds go on without, so that none can block all others.

    Yield whether it was our turn.
    """
    try:
        fd = folder.open(GATE)
    except FileRefused:  # something else is in its place
        yield True
        return
    try:
        until_s = now_s() + patience_s
        got = ofd_locks.take(fd, GATE_BYTE)
        while not got and now_s() < until_s:
            sleep(0.001)
            got = ofd_locks.take(fd, GATE_BYTE)
        yield got
    finally:
        os.close(fd)


def _write_label(fd: int, claim: Claim) -> None:
    with suppress(OSError):  # on a full disk the claim works without its label
        os.pwrite(fd, label_of(claim).ljust(_LABEL_BYTES)[:_LABEL_BYTES], 0)


def label_of(claim: Claim) -> bytes:
    """Return the label of a launch."""
    import json  # noqa: PLC0415  loaded only when a claim is made

    command = printable(claim.command or "")[:_LONGEST_COMMAND]
    label = {"pid": claim.pid, "birth": claim.birth, "since": claim.since_wall_s, "command": command}
    if claim.yields:
        label["yields"] = True
    return json.dumps(label).encode()


def read_label(shared: bool, raw: bytes) -> Claim:
    """Return what a label says, as far as it makes sense."""
    return _understood(shared, raw[: raw.rfind(b"}") + 1])  # what follows is blank


@lru_cache(maxsize=256)  # a watcher reads the same ones every second
def _understood(shared: bool, raw: bytes) -> Claim:
    import json  # noqa: PLC0415  loaded only when a claim is read

    try:
        label = json.loads(raw[: raw.find(b"\0")] if b"\0" in raw else raw)
    except (ValueError, RecursionError):
        return Claim(shared)
    if not isinstance(label, dict):
        return Claim(shared)
    pid, birth, command, since = (label.get(name) for name in ("pid", "birth", "command", "since"))
    return Claim(
        shared,
        pid=pid if type(pid) is int and 0 < pid < _MOST_PIDS else None,
        birth=birth if type(birth) is int else None,
        command=printable(command)[:_LONGEST_COMMAND] if isinstance(command, str) and command else None,
        since_wall_s=since if isinstance(since, int | float) and 0 <= since < _END_OF_TIME_S else None,
        yields=label.get("yields") is True,
    )
