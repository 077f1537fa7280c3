"""Who is logged in, and for how long they have touched nothing.

Sessions come from utmp and from logind's own files, whichever the system keeps. How long a terminal was not touched
is told by its access time, which is by the clock on the wall; so what counts after the first look is when we saw it
change, by a clock that nobody can set.
"""

import os
import struct

from fallow.core.ports import Clock
from fallow.core.unknown import Unknown
from fallow.core.value import value

_USER_PROCESS = 7
_KNOWN_TYPES = range(10)
# struct utmp up to the host; the records of 64-bit ARM are longer, since their times are.
_HEAD = struct.Struct("<h2xi32s4s32s")
_RECORD_BYTES = (384, 400)


@value
class Person:
    """Somebody who is logged in."""

    user: str
    terminal: str
    idle_s: float | Unknown


class Terminals:
    """The people on this machine; the places are parameters, so that tests bring their own."""

    def __init__(
        self,
        clock: Clock,
        utmp: str = "/run/utmp",
        sessions: str = "/run/systemd/sessions",
        devices: str = "/dev",
    ) -> None:
        self._clock = clock
        self._utmp = utmp
        self._sessions = sessions
        self._devices = devices
        self._touched: dict[str, tuple[float, float]] = {}

    def people(self) -> list[Person] | Unknown:
        """Everybody who is logged in; Unknown where the system keeps no record of that, or none that makes sense."""
        in_utmp, in_logind = self._in_utmp(), self._in_logind()
        if isinstance(in_utmp, Unknown) and isinstance(in_logind, Unknown):
            return in_utmp
        records = [record for record in (in_utmp, in_logind) if not isinstance(record, Unknown)]
        logged_in = dict.fromkeys(person for record in records for person in record)
        return [Person(user, terminal, self._idle_s(terminal)) for user, terminal in logged_in]

    def no_record(self) -> str | None:
        """Why nobody can be seen, where the system keeps no record of logins at all, as in most containers."""
        there = (os.path.exists(self._utmp), os.path.exists(self._sessions))
        return None if any(there) else f"there is neither {self._utmp} nor {self._sessions}"

    def _idle_s(self, terminal: str) -> float | Unknown:
        try:
            touched_wall_s = os.stat(f"{self._devices}/{terminal}").st_atime
        except OSError as error:
            return Unknown(f"/dev/{terminal}: {error.strerror}")
        now_s = self._clock.monotonic_s()
        before = self._touched.get(terminal)
        if before is None:
            at_first_s = max(0.0, self._clock.wall_s() - touched_wall_s)
            self._touched[terminal] = (touched_wall_s, now_s - at_first_s)
        elif before[0] != touched_wall_s:
            self._touched[terminal] = (touched_wall_s, now_s)
        return now_s - self._touched[terminal][1]

    def _in_utmp(self) -> list[tuple[str, str]] | Unknown:
        try:
            with open(self._utmp, "rb") as file:
                raw = file.read()
        except OSError as error:
            return Unknown(f"{self._utmp}: {error.strerror}")
        for size in _RECORD_BYTES:
            records = [_HEAD.unpack_from(raw, at) for at in range(0, len(raw) - size + 1, size)]
            if len(raw) % size == 0 and all(record[0] in _KNOWN_TYPES for record in records):
                return [(_text(user), _text(line)) for kind, _, line, _, user in records if kind == _USER_PROCESS]
        return Unknown(f"{self._utmp} makes no sense")

    def _in_logind(self) -> list[tuple[str, str]] | Unknown:
        try:
            names = os.listdir(self._sessions)
        except OSError as error:
            return Unknown(f"{self._sessions}: {error.strerror}")
        found: list[tuple[str, str]] = []
        for name in names:
            try:
                with open(f"{self._sessions}/{name}", encoding="utf-8", errors="replace") as file:
                    facts = dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)
            except OSError:
                continue  # ended this moment
            if facts.get("CLASS", "user") == "user" and facts.get("STATE") != "closing" and facts.get("TTY"):
                found.append((facts.get("USER", facts.get("UID", "somebody")), facts["TTY"].removeprefix("/dev/")))
        return found


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode(errors="replace")
