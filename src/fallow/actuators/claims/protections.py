"""Set, list and release protections: one file each, in the claim folder that all users share.

The owner of the file is the owner of the protection; no user can forge that. A file that cannot be read protects
everything, and so do the files of a user who has more than the limit: in the name of that user, so where only root's
protections count, neither does. All users without an account have one limit together too.

A protection that was seen stays in force until its time ends, unless its owner or root removed it. In a sticky
folder of root nobody else can. In a folder of another user a missing file proves nothing; there a release is
written into the file, which only its owner and root can do.

A protection of a process ends with the process, if that is certain: its pid must be of our own pid namespace.
"""

import errno
import math
import os
import stat
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

from fallow.actuators.claims.folder import ClaimFolder
from fallow.actuators.claims.protection_file import Says, written, written_released
from fallow.actuators.claims.protection_reader import (
    FIRST_NUMBER,
    LAST_NUMBER,
    MOST_OF_USER,
    MOST_WITHOUT_ACCOUNT,
    NO_ACCOUNT,
    ProtectionReader,
    Seen,
    facts_of,
    file_name,
    most_of,
)
from fallow.core.errors import OF_THE_DISK, FallowError, NotPermitted, WrongUsage
from fallow.core.protections import Everything, OneProcess, Protection, Target, is_over

_MOST_TRIES = 100
_MOST_TOLD_OF_USER = 20
_STICKY, _WRITTEN_BY_OTHERS = 0o1000, 0o022
_WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
Tell = Callable[[str], None]


class Lives(Protocol):
    """Finds out which processes have ended."""

    def pid_namespace(self) -> int | None:
        """Return the namespace of its pids; None if they are not those of this process."""

    def has_ended(self, pid: int, birth: int) -> bool:
        """Return whether that very process has certainly ended."""


class ProtectionFolder:
    """All protections on this machine."""

    def __init__(
        self,
        folder: ClaimFolder,
        user_name: Callable[[int], str],
        lives: Lives | None = None,
        *,
        beside: "ProtectionFolder | None" = None,
    ) -> None:
        """`beside`: another thread's view of the same folder: what it keeps in force is kept here too."""
        self._lives = lives
        self._pid_namespace = None if lives is None else lives.pid_namespace()
        self.kept: Mapping[int, Seen] = {}
        """Protections whose files are gone and that stay in force, as of the last look."""
        self._beside = beside
        self._folder = folder
        self._user_name = user_name
        self._reading = ProtectionReader(folder, user_name)
        self._kept: dict[int, Seen] = {}
        self._kept_by: tuple[tuple[int, int], set[int]] = _who_can_remove(folder)
        self._told: Counter[tuple[str, int]] = Counter()

    def place(self, target: Target, until_wall_s: float, why: str) -> int:
        """Place a protection; its number is random, so that no user can take it first, and none is used twice."""
        namespace = self._pid_namespace if isinstance(target, OneProcess) else None
        for _ in range(_MOST_TRIES):
            number = FIRST_NUMBER + int.from_bytes(os.urandom(8), "little") % (LAST_NUMBER - FIRST_NUMBER + 1)
            if number in self._kept:
                continue
            try:
                if self._folder.add(file_name(number), written(number, target, until_wall_s, why, namespace)):
                    return number
            except OSError as error:
                sentence = f"cannot place a protection in {self._folder.path}: {error.strerror}"
                if error.errno in OF_THE_DISK:
                    raise FallowError(sentence, "put that right, or ask root to") from None
                raise NotPermitted(sentence) from None
        raise NotPermitted(f"cannot place a protection in {self._folder.path}: every name that was tried is taken")

    def demand_room(self, uid: int, wall_s: float) -> None:
        """Raise WrongUsage if the user has as many protections as allowed; root may have any number."""
        self.active(wall_s)
        in_force = self._in_force(wall_s)
        if uid != 0 and sum(seen.uid == uid for seen in in_force) >= MOST_OF_USER:
            who = self._user_name(uid)
            raise WrongUsage(f"{who} has {MOST_OF_USER} protections; release one first (fallow protect --list)")
        of_nameless = sum(seen.lane == NO_ACCOUNT for seen in in_force)
        if of_nameless >= MOST_WITHOUT_ACCOUNT and not self._reading.has_account(uid):
            raise WrongUsage(
                f"users without an account have {MOST_WITHOUT_ACCOUNT} protections, and may have no more"
            )

    def active(self, wall_s: float, tell: Tell | None = None) -> list[Protection]:
        """Return the protections in force, and remove those that are over if possible. Problems are reported once."""
        before = self._reading.seen
        try:
            self._folder.refresh()
            self._reading.look(wall_s)
        except (NotPermitted, OSError) as error:
            return [Protection(0, Everything(), math.inf, f"the protections cannot be read: {error}", "somebody")]
        self._keep_vanished(before, wall_s, tell)
        self._clear_away(wall_s)
        self.kept = dict(self._kept)
        return self._listed(wall_s, tell)

    def release(self, number: int) -> None:
        """End a protection before its time."""
        name = file_name(number)
        try:
            uid = os.stat(name, dir_fd=self._folder.fd, follow_symlinks=False).st_uid
            if _who_can_remove(self._folder)[1] <= {0, uid}:
                self._folder.remove(name)
            else:
                self._write_released(number, uid)
        except FileNotFoundError:
            self._release_kept(number)
        except PermissionError:
            raise self._not_theirs(number, uid) from None
        except OSError as error:
            raise NotPermitted(f"cannot release protection {number}: {error.strerror}") from None

    def _keep_vanished(self, before: dict[int, Seen], wall_s: float, tell: Tell | None) -> None:
        """Keep protections in force whose files are gone without a release by their owner."""
        identity, removers = self._kept_by
        self._kept_by = _who_can_remove(self._folder)
        removers = removers | self._kept_by[1] | ({-1} if identity != self._kept_by[0] else set())
        there = self._reading.seen
        for number in before.keys() - there.keys() - self._reading.unread.keys():
            seen, protection = before[number], before[number].word.protection
            if (
                seen.word.says is not Says.HOLD
                or self._is_over(seen, wall_s)
                or removers <= {0, os.geteuid(), seen.uid}
            ):
                continue
            self._keep(number, seen)
            who = protection.by_user
            gone = f"protection {number} of {who} is gone from {self._folder.path}, and not by {who}'s word"
            self._tell_once(tell, "gone", seen.uid, f"{gone}; it stays in force until its time ends")
        if self._beside is not None:
            self._kept = {**self._beside.kept, **self._kept}
        for number in self._kept.keys() & there.keys():
            if there[number].uid in (0, self._kept[number].uid):
                del self._kept[number]  # it is back, or its owner released it
        self._kept = {number: seen for number, seen in self._kept.items() if not self._is_over(seen, wall_s)}

    def _keep(self, number: int, seen: Seen) -> None:
        """Keep a limited number for each user: those that last longest."""
        self._kept[number] = seen
        theirs = [each for each, kept in self._kept.items() if kept.lane == seen.lane]
        if len(theirs) > most_of(seen.lane):
            del self._kept[min(theirs, key=lambda each: self._kept[each].word.protection.until_wall_s)]

    def _clear_away(self, wall_s: float) -> None:
        for number, seen in list(self._reading.seen.items()):
            if seen.word.says is not Says.NONSENSE and self._is_over(seen, wall_s):
                with suppress(OSError, NotPermitted):
                    found = os.stat(file_name(number), dir_fd=self._folder.fd, follow_symlinks=False)
                    if facts_of(found) == seen.facts:  # and not another file that was put there since
                        self._folder.remove(file_name(number))

    def _in_force(self, wall_s: float) -> list[Seen]:
        kinds = (Says.HOLD, Says.NONSENSE)
        found = (*sorted(self._reading.seen.items()), *sorted(self._kept.items()))
        return [seen for _, seen in found if seen.word.says in kinds and not self._is_over(seen, wall_s)]

    def _is_over(self, seen: Seen, wall_s: float) -> bool:
        """Return whether its time has come, or its process has ended."""
        target, namespace = seen.word.protection.target, seen.word.pid_namespace
        if is_over(seen.word.protection, wall_s):
            return True
        if self._lives is None or namespace is None or namespace != self._pid_namespace:
            return False
        return isinstance(target, OneProcess) and self._lives.has_ended(target.pid, target.birth)

    def _listed(self, wall_s: float, tell: Tell | None) -> list[Protection]:
        protections: list[Protection] = []
        for seen in self._in_force(wall_s):
            protections.append(seen.word.protection)
            if seen.word.says is Says.NONSENSE:
                self._tell_once(tell, "nonsense", seen.uid, str(seen.word.protection))
        for uid, count in sorted(self._reading.surplus.items()):
            who = self._reading.name_of(uid)
            whose = "all such users" if uid == NO_ACCOUNT else "a user"
            more = f"{count} more than the {most_of(uid)} that {whose} may have, or than are read at once"
            why = f"{more}; they count as one, of everything"
            protections.append(Protection(self._reading.one_of_surplus[uid], Everything(), math.inf, why, who))
            self._tell_once(tell, "surplus", uid, f"{who} has {why}")
        if self._reading.left_out:
            why = "there are more protections than can be read at once, so everything is protected"
            protections.append(Protection(0, Everything(), math.inf, why, "somebody"))
            self._tell_once(tell, "left out", 0, why)
        return protections

    def _tell_once(self, tell: Tell | None, kind: str, uid: int, sentence: str) -> None:
        """Report each problem once, so that no user can fill a log with protections."""
        if tell is not None and self._told[kind, uid] < (_MOST_TOLD_OF_USER if kind == "gone" else 1):
            self._told[kind, uid] += 1
            tell(sentence)

    def _write_released(self, number: int, uid: int) -> None:
        """Write the release into the file of that owner, which only the owner and root can do."""
        self._folder.demand_change()
        seen = self._reading.read(number)
        until_s = math.inf if seen is None else seen.word.protection.until_wall_s
        fd = os.open(file_name(number), _WRITE, dir_fd=self._folder.fd)
        try:
            facts = os.fstat(fd)
            if not stat.S_ISREG(facts.st_mode) or facts.st_uid != uid or facts.st_nlink != 1:
                raise OSError(errno.EINVAL, "its file is not a plain file of its owner under one name")
            content = written_released(number, until_s)
            os.pwrite(fd, content, 0)
            os.ftruncate(fd, len(content))
        finally:
            os.close(fd)

    def _release_kept(self, number: int) -> None:
        """Release a protection whose file is gone: its owner writes a new file that says so."""
        kept = self._kept.get(number)
        if kept is None:
            raise WrongUsage(f"there is no protection {number}; see: fallow protect --list")
        name = file_name(number)
        try:
            self._folder.add(name, written_released(number, kept.word.protection.until_wall_s))
            uid = os.stat(name, dir_fd=self._folder.fd, follow_symlinks=False).st_uid
        except OSError as error:
            raise NotPermitted(f"cannot release protection {number}: {error.strerror}") from None
        if uid not in (0, kept.uid):
            with suppress(OSError):
                self._folder.remove(name)
            raise self._not_theirs(number, kept.uid)

    def _not_theirs(self, number: int, uid: int) -> NotPermitted:
        owner = self._reading.name_of(uid)
        who = owner if owner == "root" else f"{owner} or root"
        return NotPermitted(f"protection {number} is {owner}'s; only {who} can release it")


def _who_can_remove(folder: ClaimFolder) -> tuple[tuple[int, int], set[int]]:
    """Return which folder it is, and who can remove files of others in it; -1 means any user."""
    facts = os.fstat(folder.fd)
    anybody = facts.st_mode & _WRITTEN_BY_OTHERS and not facts.st_mode & _STICKY
    return (facts.st_dev, facts.st_ino), {facts.st_uid} | ({-1} if anybody else set())
