"""Find out who is at this machine, and for how long they have typed nothing.

People are found in two places, whichever the system has: logind's files, and the terminals themselves, which exist
wherever a person types, even if no login is recorded. A terminal's access time says when it was last used. It is in
system time, which can be set, so after the first look the monotonic time at which it changed counts. The kernel moves
the access time in steps of eight seconds.

A session of logind may name no terminal, as with ssh. It counts only if its user has no terminal at all, and then it
is unknown for how long they have typed nothing.

The keys that are pressed at a desktop move no terminal, so of a desktop in front it is unknown for how long nobody
has been there.

An empty place is no record: some systems leave one behind that nothing writes to. Without any record, it is Unknown
who is here.
"""

import os
import stat

from fallow.core.ports import Clock
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.readers.proc import user_name

LEAST_IDLE_S = 10.0
"""The shortest absence that can be seen: the access time of a terminal moves in steps of eight seconds."""

_MOST_OF_SESSION = 8192
_PTS_MAJORS = range(136, 144)
_CONSOLE_MAJOR, _FIRST_SERIAL = 4, 64
_DESKTOPS = ("x11", "wayland", "mir")
_AT_A_DESKTOP = Unknown("not to be told: it is a desktop, whose keys are not seen")
_CONSOLES = tuple(f"tty{number}" for number in range(1, 13))


@value
class Person:
    """A person who is logged in; without a terminal if they came without one."""

    user: str
    terminal: str | None
    idle_s: float | Unknown

    @property
    def place(self) -> str:
        """Return where they are, for messages."""
        return self.terminal or "a session without a terminal"


class Terminals:
    """The people on this machine; the places are parameters, so that tests bring their own."""

    def __init__(self, clock: Clock, sessions: str = "/run/systemd/sessions", devices: str = "/dev") -> None:
        self._clock = clock
        self._sessions = sessions
        self._devices = devices
        self._touched: dict[str, tuple[float, float]] = {}
        self._desktops: set[str] = set()
        """The terminals behind desktops, by the last look at logind's files."""
        self._at_desktops: set[str] = set()
        """The users whose desktops are in front, by the same look."""

    def people(self) -> list[Person] | Unknown:
        """Return all people who are logged in; Unknown if there is no record."""
        in_logind, at_terminals = self._in_logind(), self._at_terminals()
        if in_logind is None and at_terminals is None:
            return Unknown(f"there is no record of who is here: neither {self._sessions} nor {self._devices}/pts")
        found = dict.fromkeys(in_logind or ())
        known = {terminal for _, terminal in found}
        found |= dict.fromkeys(each for each in at_terminals or () if each[1] not in known)
        idle_s = {terminal: self._idle_s(terminal) for _, terminal in found if terminal is not None}
        self._touched = {terminal: self._touched[terminal] for terminal in idle_s if terminal in self._touched}
        at_one = {user for user, terminal in found if terminal is not None}
        nowhere = Unknown("not to be told: their session has no terminal")
        return [
            Person(user, terminal, nowhere if terminal is None else idle_s[terminal])
            for user, terminal in found
            if terminal is not None or user not in at_one or user in self._at_desktops
        ]

    def sources(self) -> list[str]:
        """Return which records this system has."""
        found = {self._sessions: self._in_logind(), f"{self._devices}/pts": self._at_terminals()}
        return [place for place, told in found.items() if told is not None]

    def _idle_s(self, terminal: str) -> float | Unknown:
        if terminal in self._desktops:
            return _AT_A_DESKTOP
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

    def _at_terminals(self) -> list[tuple[str, str | None]] | None:
        """Return the terminals and their owners: those of programs, and consoles that belong to a user."""
        try:
            names = [f"pts/{name}" for name in os.listdir(f"{self._devices}/pts") if name.isdigit()]
        except OSError:
            return None
        found: list[tuple[str, str | None]] = []
        for name in (*names, *_CONSOLES):
            try:
                owner = os.stat(f"{self._devices}/{name}").st_uid
            except OSError:
                continue  # closed this moment
            if owner != 0 or name.startswith("pts/"):  # a console of root: no login there yet
                found.append((user_name(owner), name))
        return found

    def _in_logind(self) -> list[tuple[str, str | None]] | None:
        self._desktops, self._at_desktops = set(), set()
        try:
            names = os.listdir(self._sessions)
        except OSError:
            return None
        if not names:
            return None
        found: list[tuple[str, str | None]] = []
        for name in names:
            facts = self._session(name)
            if facts.get("CLASS", "user").startswith("user") and facts and facts.get("STATE") != "closing":
                user = facts.get("USER", facts.get("UID", "somebody"))
                terminal = facts["TTY"].removeprefix("/dev/") if facts.get("TTY") else None
                if facts.get("TYPE") in _DESKTOPS and facts.get("STATE") == "active":
                    self._at_desktops.add(user)
                    self._desktops |= {terminal} if terminal is not None else set()
                found.append((user, terminal))
        return found

    def _session(self, name: str) -> dict[str, str]:
        try:
            with open(f"{self._sessions}/{name}", encoding="utf-8", errors="replace", newline="\n") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return {}
                lines = file.read(_MOST_OF_SESSION).split("\n")
        except OSError:
            return {}  # ended this moment
        return dict(line.split("=", 1) for line in lines if "=" in line)


def terminal_name(number: int) -> str | None:
    """Return the terminal of a device number, below /dev; None if it is not one that people type at."""
    major, minor = (number >> 8) & 0xFFF, (number & 0xFF) | ((number >> 12) & 0xFFF00)
    if major in _PTS_MAJORS:
        return f"pts/{(major - _PTS_MAJORS.start) * 256 + minor}"
    if major == _CONSOLE_MAJOR:
        return f"tty{minor}" if minor < _FIRST_SERIAL else f"ttyS{minor - _FIRST_SERIAL}"
    return None
