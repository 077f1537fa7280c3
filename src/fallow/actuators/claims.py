"""Claims: a GPU promised to one launch, for exactly as long as any process of its job lives.

Each GPU has one file. A claim is a lock on one byte of it, held by an open file that the job inherits; so the
kernel ends the claim with the job's last process, however it dies, and nothing is left to clean up. What the
file says (who claims it, who picked it moments ago) are labels for people: any user can write them, so they
are read with doubt, and only the lock decides.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fcntl import F_DUPFD
from fcntl import fcntl as fcntl_call
from functools import lru_cache

from fallow.actuators import locks
from fallow.actuators.claim_folder import ClaimFolder
from fallow.core.promise import Claim
from fallow.core.units import printable

_CLAIM_BYTE = 2**62  # the bytes before it are places in line, numbered by the time of arrival
_LABEL_BYTES = 4096
_RESERVATION_AT = _LABEL_BYTES
_GATE_BYTE = 0
_GATE_PATIENCE_S = 5.0
_LONGEST_COMMAND = 800
_MOST_COUNTED = 999
_END_OF_TIME_S = 4e9
_OUT_OF_THE_WAY = 400  # shells and scripts use low descriptors of their own, and would close the claim

RESERVED_FOR_S = 10.0


class CardFile:
    """The claim file of one GPU, open."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def close(self) -> None:
        """Let go; a claim or ticket taken through this file ends, unless somebody inherited it."""
        os.close(self.fd)

    def claim(self) -> Claim | None:
        """Who has claimed the GPU, looked at without getting in anybody's way."""
        held = locks.other(self.fd, _CLAIM_BYTE, _CLAIM_BYTE)
        return None if held is None else read_label(held.shared, os.pread(self.fd, _LABEL_BYTES, 0))

    def first_in_line(self, ticket: int = _CLAIM_BYTE) -> locks.Lock | None:
        """A launch that waits for the GPU and came before this ticket."""
        return locks.other(self.fd, 0, ticket - 1)

    def count_in_line(self, ticket: int = _CLAIM_BYTE) -> int:
        """How many wait and came before this ticket."""
        count, ranges = 0, [(0, ticket - 1)]
        while ranges and count < _MOST_COUNTED:
            first, last = ranges.pop()
            found = locks.other(self.fd, first, last)
            if found is not None:
                count += 1
                ranges += [(first, found.start - 1), (found.start + 1, last)]
        return count

    def reserved(self, now_s: float) -> bool:
        """Whether somebody picked it in the last seconds. A time from before a reboot is not believed."""
        raw = os.pread(self.fd, 8, _RESERVATION_AT)
        left_s = int.from_bytes(raw, "little") / 1e9 - now_s
        return len(raw) == 8 and 0 < left_s <= RESERVED_FOR_S

    def reserve(self, now_s: float) -> None:
        """Ask others to avoid it for some seconds."""
        until_ns = int((now_s + RESERVED_FOR_S) * 1e9)
        with suppress(OSError):  # a full disk takes the courtesy, not the pick
            os.pwrite(self.fd, until_ns.to_bytes(8, "little"), _RESERVATION_AT)


class HeldClaim:
    """A claim that we hold."""

    def __init__(self, uuid: str, card: CardFile) -> None:
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
        """End it now, for every process that inherited it too; a forked child only lets go of its own copy."""
        if os.getpid() == self._pid:
            locks.release(self._card.fd, _CLAIM_BYTE)
        self._card.close()


def take(folder: ClaimFolder, uuid: str, claim: Claim) -> HeldClaim | None:
    """Claim a GPU; None if somebody else has it."""
    while True:
        card = CardFile(folder.open(uuid))
        if not locks.take(card.fd, _CLAIM_BYTE, shared=claim.shared):
            card.close()
            return None
        if folder.still_there(uuid, card.fd):
            _write_label(card.fd, claim)
            return HeldClaim(uuid, card)
        card.close()  # somebody removed the file under us: a lock on it binds nobody


@contextmanager
def gate(folder: ClaimFolder, now_s: Callable[[], float], sleep: Callable[[float], None]) -> Iterator[None]:
    """One at a time, for moments. Who cannot get in within seconds goes on without: nobody may block all."""
    fd = folder.open("gate")
    try:
        until_s = now_s() + _GATE_PATIENCE_S
        while not locks.take(fd, _GATE_BYTE) and now_s() < until_s:
            sleep(0.001)
        yield
    finally:
        os.close(fd)


def _write_label(fd: int, claim: Claim) -> None:
    with suppress(OSError):  # a full disk takes the label, not the claim
        os.pwrite(fd, label_of(claim).ljust(_LABEL_BYTES)[:_LABEL_BYTES], 0)


def label_of(claim: Claim) -> bytes:
    """What a launch writes of itself."""
    import json  # noqa: PLC0415  only those who claim pay for it

    command = printable(claim.command or "")[:_LONGEST_COMMAND]
    label = {"pid": claim.pid, "user": claim.user, "since": claim.since_wall_s, "command": command}
    return json.dumps(label).encode()


def read_label(shared: bool, raw: bytes) -> Claim:
    """What somebody wrote of themselves, as far as it makes sense."""
    return _understood(shared, raw.rstrip())


@lru_cache(maxsize=256)  # who watches reads the same ones every second
def _understood(shared: bool, raw: bytes) -> Claim:
    import json  # noqa: PLC0415  only those who meet a claim pay for it

    try:
        label = json.loads(raw)
    except (ValueError, RecursionError):
        return Claim(shared)
    if not isinstance(label, dict):
        return Claim(shared)
    pid, user, command, since = (label.get(name) for name in ("pid", "user", "command", "since"))
    return Claim(
        shared,
        pid=pid if isinstance(pid, int) else None,
        user=printable(user) if isinstance(user, str) else None,
        command=printable(command) if isinstance(command, str) and command else None,
        since_wall_s=since if isinstance(since, int | float) and 0 <= since < _END_OF_TIME_S else None,
    )
