"""Read the files of protections, however many there are and whatever they contain.

A look costs little: the folder is listed again only after it has changed, a file is read again only after it has,
and only a limited number of files of each user is read. The rest is counted, and protects everything in the name of
that user: what it could say counts for no more than they may protect.

Users without an account have a limit together: one person may have thousands of such numbers (subuid(5)).
"""

import os
import stat
from collections import Counter
from collections.abc import Callable
from itertools import islice

from fallow.actuators.claims.folder import ClaimFolder
from fallow.actuators.claims.protection_file import MOST_BYTES, Says, Word, nonsense, understood
from fallow.core.value import value

MOST_OF_USER = 50
MOST_WITHOUT_ACCOUNT = 200
FIRST_NUMBER, LAST_NUMBER = 100_000_000, 999_999_999
SOMEBODY = "somebody"
ANYBODY = -1
"""Whose word a file is that any user may write to, whoever owns it."""
NO_ACCOUNT = -2
"""All users without an account."""
_NOT_LOOKED_UP = -3
_NAMES = {ANYBODY: SOMEBODY, NO_ACCOUNT: "somebody without an account", _NOT_LOOKED_UP: SOMEBODY}
_WRITTEN_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_PREFIX = "protection-"
_LONGEST_NUMBER = 9
_MOST_ENTRIES = 25_000  # of the folder; with more than that everything is protected
_MOST_NEW = 2_000  # whose owners are looked up in one look; root's files are always read
_SETTLED_S = 0.1  # a folder that changed later may change again within the same tick of its clock


@value
class Seen:
    """A file as it was last read."""

    word: Word
    uid: int
    facts: tuple[int, ...]
    """Differs as soon as the file is another or was written to."""
    lane: int
    """Its user; the same for all users without an account."""


class ProtectionReader:
    """Remembers what it has read."""

    def __init__(self, folder: ClaimFolder, user_name: Callable[[int], str]) -> None:
        self.seen: dict[int, Seen] = {}
        """The files, by number."""
        self.unread: dict[int, int] = {}
        """Files beyond a limit, with the user whose limit it is; of files beyond that of a look it is not known."""
        self.surplus: Counter[int] = Counter()
        """How many of those each user has."""
        self.one_of_surplus: dict[int, int] = {}
        """The number of one of those of each user."""
        self.left_out = False
        """Whether there are files whose owner is not known."""
        self._folder = folder
        self._user_name = user_name
        self._listed: tuple[int, ...] | None = None
        self._numbers: list[int] = []
        self._too_many = False
        self._looked_up = 0

    def look(self, wall_s: float) -> None:
        """Read what has changed; raise OSError if the folder cannot be read."""
        recount = self._list(wall_s)
        before, self.seen = self.seen, {}
        of_user: Counter[int] = Counter()
        self._looked_up, unread = 0, len(self.unread)
        self.left_out = self._too_many
        # Files that were read before come first, so that later ones cannot crowd them out.
        for number in sorted(self._numbers, key=lambda number: number not in before):
            seen = self._read(number, before.get(number), of_user)
            if seen is not None:
                self.seen[number] = seen
                of_user.update({seen.uid, seen.lane} if seen.word.says is not Says.RELEASED else ())
        if len(self._numbers) != len(self.seen):
            self._listed = None  # what was not read is tried again at the next look, unless it is too much
        if recount or len(self.unread) != unread:
            self.surplus = Counter(self.unread.values())
            self.one_of_surplus = {uid: number for number, uid in self.unread.items()}
        room = {uid for uid in self.surplus if of_user[uid] < most_of(uid)}
        if room:
            self._listed = None
            self.unread = {number: uid for number, uid in self.unread.items() if uid not in room}

    def read(self, number: int) -> Seen | None:
        """Return the file of this number; None if there is none."""
        return self._read(number, None, Counter())

    def name_of(self, uid: int) -> str:
        """Return the name of a user; the same for all whose word is in files that any user may write to."""
        return _NAMES.get(uid) or self._user_name(uid)

    def has_account(self, uid: int) -> bool:
        """Return whether the machine knows a user by name."""
        return self.name_of(uid) != str(uid)

    def _list(self, wall_s: float) -> bool:
        """List the folder if it may have changed; return whether it was listed."""
        facts = os.fstat(self._folder.fd)
        mark = (facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns)
        if mark == self._listed:
            return False
        with os.scandir(self._folder.fd) as entries:
            names = [entry.name for entry in islice(entries, _MOST_ENTRIES + 1)]
        self._too_many = len(names) > _MOST_ENTRIES
        numbers = {number for number in map(number_of, names) if number is not None}
        self.unread = {number: uid for number, uid in self.unread.items() if number in numbers}
        self._numbers = sorted(numbers.difference(self.unread))
        settled = facts.st_mtime + _SETTLED_S < wall_s and not self._too_many
        self._listed = mark if settled else None
        return True

    def _read(self, number: int, known: Seen | None, of_user: Counter[int]) -> Seen | None:
        """Return the file of this number; None if there is none, or it is beyond a limit. Root's has none."""
        name = file_name(number)
        try:
            found = os.stat(name, dir_fd=self._folder.fd, follow_symlinks=False)
        except OSError:
            return None  # released this moment
        if known is not None and known.facts == facts_of(found):
            return known
        uid = _whose_word(found)
        limit_of = self._whose_limit(uid, of_user, is_known=known is not None)
        if limit_of is not None:
            self.unread[number] = limit_of
            return None
        owner = self.name_of(uid)
        try:
            content, found = self._folder.read(name, MOST_BYTES + 1)
            uid = _whose_word(found)
            owner = self.name_of(uid)
            word = understood(number, content, owner)
        except FileNotFoundError:
            return None
        except OSError as error:
            word = nonsense(number, owner, f"its file cannot be read ({error.strerror}), so it protects everything")
        linked = found.st_nlink != 1 and not stat.S_ISDIR(found.st_mode)  # nobody can make a hard link to a folder
        if (linked or uid == 0) and word.says is Says.NONSENSE:
            # Another user may have made the link, or moved a file of root's here from a folder of theirs.
            word = nonsense(number, SOMEBODY)
        # A protection means what it said at first; later changes of the file are ignored.
        if known is not None and known.uid == uid and Says.HOLD is known.word.says and word.says is not Says.RELEASED:
            word = known.word
        return Seen(word, uid, facts_of(found), NO_ACCOUNT if owner == str(uid) else uid)

    def _whose_limit(self, uid: int, of_user: Counter[int], *, is_known: bool) -> int | None:
        """Return whose limit keeps one more file of this user from being read; None if none does."""
        if uid == 0:
            return None
        if of_user[uid] >= MOST_OF_USER:
            return uid
        if is_known:
            return None
        if self._looked_up >= _MOST_NEW:
            return uid if of_user[uid] else _NOT_LOOKED_UP
        self._looked_up += 1
        full = of_user[NO_ACCOUNT] >= MOST_WITHOUT_ACCOUNT and not self.has_account(uid)
        return NO_ACCOUNT if full else None


def most_of(uid: int) -> int:
    """Return how many protections a user may have."""
    return MOST_WITHOUT_ACCOUNT if uid == NO_ACCOUNT else MOST_OF_USER


def file_name(number: int) -> str:
    """Return the name of the file of a protection."""
    return f"{_PREFIX}{number}"


def number_of(name: str) -> int | None:
    """Return the number of a protection from the name of its file; None for any other file."""
    digits = name.removeprefix(_PREFIX)
    if digits == name or len(digits) > _LONGEST_NUMBER or not (digits.isascii() and digits.isdigit()):
        return None
    return None if digits.startswith("0") else int(digits)


def _whose_word(found: os.stat_result) -> int:
    """Return the user who alone can have written a file; ANYBODY if others could.

    The claim files of GPUs are root's and open to all. Any user can give one of them a second name, and write to it.
    """
    return ANYBODY if found.st_mode & _WRITTEN_BY_OTHERS and stat.S_ISREG(found.st_mode) else found.st_uid


def facts_of(found: os.stat_result) -> tuple[int, ...]:
    """Return facts that differ as soon as a file is another or was written to."""
    return found.st_dev, found.st_ino, found.st_uid, found.st_size, found.st_mtime_ns, found.st_ctime_ns
