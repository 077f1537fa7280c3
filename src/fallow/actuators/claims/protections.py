"""Set, list and release protections: one file each, in the claim folder that all users share.

`protection-N` has nine random digits, mode 0644, and JSON of at most 8192 bytes: `target`, `until` (seconds since the
epoch; null for no end), `why`, and for a process `pid_namespace`. Its owner is the owner of the protection, which
nobody can forge. To release it is to remove it, so the kernel decides who may.

In doubt it protects: a file that makes no sense, or that others than its owner could have written, protects
everything, as somebody's and not as a user's.

A protection of a process ends with the process, if that is certain: its pid must be of our own pid namespace.
"""

import json
import math
import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from fallow.actuators.claims.folder import ClaimFolder
from fallow.core.errors import NotPermitted, WrongUsage
from fallow.core.protections import Everything, OneProcess, Protection, Target, is_over, parse_target, reason_of
from fallow.core.value import replace

_MOST = 1000
_MOST_BYTES = 8192
_END_OF_TIME_S = 4e9
_FIRST_NUMBER, _NUMBERS = 100_000_000, 900_000_000
_NAME = re.compile(r"protection-([1-9]\d{8})", re.ASCII)
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_SOMEBODY = "somebody"
Tell = Callable[[str], None]


class Lives(Protocol):
    """Finds out which processes have ended."""

    def pid_namespace(self) -> int | None:
        """Return the namespace of its pids; None if they are not those of this process."""

    def has_ended(self, pid: int, birth: int) -> bool:
        """Return whether that very process has certainly ended."""


class ProtectionFolder:
    """All protections on this machine."""

    def __init__(self, folder: ClaimFolder, user_name: Callable[[int], str], lives: Lives) -> None:
        self._lives = lives
        self._pid_namespace = lives.pid_namespace()
        self._folder = folder
        self._user_name = user_name
        self._told: set[str] = set()

    def place(self, target: Target, until_wall_s: float, why: str) -> int:
        """Place a protection; its number is random, so that an old one never names a new protection."""
        until = None if until_wall_s == math.inf else until_wall_s
        fields: dict[str, object] = {"target": str(target), "until": until, "why": reason_of(why)}
        if isinstance(target, OneProcess) and self._pid_namespace is not None:
            fields["pid_namespace"] = self._pid_namespace
        number = _FIRST_NUMBER + int.from_bytes(os.urandom(8), "little") % _NUMBERS
        try:
            if self._folder.add(_file_name(number), json.dumps(fields).encode()):
                return number
        except OSError as error:
            raise NotPermitted(f"cannot place a protection in {self._folder.path}: {error.strerror}") from None
        return self.place(target, until_wall_s, why)  # that number is taken

    def active(self, wall_s: float, tell: Tell = lambda _: None) -> list[Protection]:
        """Return the protections in force; remove those that are over. `tell` gets each problem once."""
        try:
            self._folder.refresh()
            names = sorted(filter(_NAME.fullmatch, self._folder.names()))
        except (NotPermitted, OSError) as error:
            return [_in_doubt(0, f"the protections cannot be read: {error}")]
        if len(names) > _MOST:
            return [_in_doubt(0, f"there are more than {_MOST} protections, so everything is protected")]
        in_force: list[Protection] = []
        for protection in filter(None, map(self._read, names)):
            if is_over(protection, wall_s):
                with suppress(OSError, NotPermitted):
                    self._folder.remove(_file_name(protection.id))
                continue
            in_force.append(protection)
            if protection.by_user == _SOMEBODY and protection.why not in self._told:
                self._told.add(protection.why)
                tell(str(protection))
        return in_force

    def release(self, number: int) -> None:
        """End a protection before its time."""
        name = _file_name(number)
        try:
            uid = os.stat(name, dir_fd=self._folder.fd, follow_symlinks=False).st_uid
            self._folder.remove(name)
        except FileNotFoundError:
            raise WrongUsage(f"there is no protection {number}; see: fallow protect --list") from None
        except PermissionError:
            owner = self._user_name(uid)
            who = owner if owner == "root" else f"{owner} or root"
            raise NotPermitted(f"protection {number} is {owner}'s; only {who} can release it") from None
        except OSError as error:
            raise NotPermitted(f"cannot release protection {number}: {error.strerror}") from None

    def _read(self, name: str) -> Protection | None:
        """Return what a file says; None if it was removed this moment."""
        number = int(name.removeprefix("protection-"))
        try:
            fd = os.open(name, _READ, dir_fd=self._folder.fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            return _in_doubt(number, f"its file cannot be read ({error.strerror}), so it protects everything")
        try:
            facts = os.fstat(fd)
            owner = self._user_name(facts.st_uid)
            if stat.S_ISREG(facts.st_mode) and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return self._understood(number, os.read(fd, _MOST_BYTES + 1), owner)
        except (OSError, ValueError, TypeError, KeyError, ArithmeticError, RecursionError, WrongUsage):
            pass
        finally:
            os.close(fd)
        return _in_doubt(number, f"its file, which is {owner}'s, makes no sense, so it protects everything")

    def _understood(self, number: int, raw: bytes, owner: str) -> Protection:
        """Return what a file says; raise one of many errors if that makes no sense."""
        if len(raw) > _MOST_BYTES:
            raise ValueError("too long")
        fields = json.loads(raw)
        target, until, why, namespace = fields["target"], fields["until"], fields["why"], fields.get("pid_namespace")
        if not isinstance(target, str) or not isinstance(why, str) or isinstance(until, bool):
            raise TypeError("of another kind")
        until_s = math.inf if until is None or not until < _END_OF_TIME_S else float(until)
        protection = Protection(number, parse_target(target), until_s, reason_of(why), owner)
        one = protection.target
        is_ours = namespace is not None and namespace == self._pid_namespace
        if is_ours and isinstance(one, OneProcess) and self._lives.has_ended(one.pid, one.birth):
            return replace(protection, until_wall_s=0.0)
        return protection


def _file_name(number: int) -> str:
    return f"protection-{number}"


def _in_doubt(number: int, why: str) -> Protection:
    """Return a protection of everything, without an end."""
    return Protection(number, Everything(), math.inf, why, _SOMEBODY)
