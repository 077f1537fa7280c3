"""Find out who is at this machine, and for how long they have typed nothing.

People are at terminals, which exist wherever a person types, even if no login is recorded: the access time of one
says when it was last used, in steps of eight seconds. It is in system time, which can be set, so after the first look
the monotonic time at which it changed counts.

logind knows two kinds of people whose keys move no terminal: those at a desktop in front, and those in a session
without a terminal, as with ssh, if they have none at all. For how long they have typed nothing is unknown.

An empty folder of logind is no record: some systems leave one behind. Without any record it is unknown who is here.
"""

import os

from fallow.core.ports import Clock
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.readers.accounts import user_name
from fallow.readers.proc_files import read_start

LEAST_IDLE_S = 10.0
"""The shortest absence that can be seen: the access time of a terminal moves in steps of eight seconds."""

_PTS_MAJORS = range(136, 144)
_CONSOLE_MAJOR, _FIRST_SERIAL = 4, 64
_CONSOLES = tuple(f"tty{number}" for number in range(1, 13))
_DESKTOPS = ("x11", "wayland", "mir")
_AT_A_DESKTOP = Unknown("not to be told: it is a desktop, whose keys are not seen")
_NOWHERE = Unknown("not to be told: their session has no terminal")


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


@value
class _Session:
    """A session of logind."""

    user: str
    terminal: str | None
    is_desktop_in_front: bool


class Terminals:
    """The people on this machine; the places are parameters, so that tests bring their own."""

    def __init__(self, clock: Clock, sessions: str = "/run/systemd/sessions", devices: str = "/dev") -> None:
        self._clock = clock
        self._sessions = sessions
        self._devices = devices
        self._touched: dict[str, tuple[float, float]] = {}

    def people(self) -> list[Person] | Unknown:
        """Return all people who are logged in; Unknown if there is no record."""
        sessions, terminals = self._in_logind(), self._at_terminals()
        if sessions is None and terminals is None:
            return Unknown(f"there is no record of who is here: neither {self._sessions} nor {self._devices}/pts")
        known = sessions or []
        users = (terminals or {}) | {each.terminal: each.user for each in known if each.terminal is not None}
        desktops = {each.terminal for each in known if each.is_desktop_in_front}
        found = [
            Person(user, terminal, _AT_A_DESKTOP if terminal in desktops else self._idle_s(terminal))
            for terminal, user in users.items()
        ]
        self._touched = {terminal: self._touched[terminal] for terminal in users if terminal in self._touched}
        return found + [
            Person(each.user, None, _AT_A_DESKTOP if each.is_desktop_in_front else _NOWHERE)
            for each in known
            if each.terminal is None and (each.is_desktop_in_front or each.user not in users.values())
        ]

    def sources(self) -> list[str]:
        """Return which records this system has."""
        found = {self._sessions: self._in_logind(), f"{self._devices}/pts": self._at_terminals()}
        return [place for place, told in found.items() if told is not None]

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

    def _at_terminals(self) -> dict[str, str] | None:
        """Return the terminals with their owners: those of programs, and consoles that belong to a user."""
        try:
            names = [f"pts/{name}" for name in os.listdir(f"{self._devices}/pts") if name.isdigit()]
        except OSError:
            return None
        found: dict[str, str] = {}
        for name in (*names, *_CONSOLES):
            try:
                owner = os.stat(f"{self._devices}/{name}").st_uid
            except OSError:
                continue  # closed this moment
            if owner != 0 or name.startswith("pts/"):  # a console of root: no login there yet
                found[name] = user_name(owner)
        return found

    def _in_logind(self) -> list[_Session] | None:
        try:
            names = os.listdir(self._sessions)
        except OSError:
            return None
        if not names:
            return None
        found = []
        for name in filter(str.isalnum, names):  # beside each is a pipe, NAME.ref
            lines = (read_start(f"{self._sessions}/{name}") or b"").decode(errors="replace").split("\n")
            facts = dict(line.split("=", 1) for line in lines if "=" in line)
            if facts and facts.get("CLASS", "user").startswith("user") and facts.get("STATE") != "closing":
                in_front = facts.get("TYPE") in _DESKTOPS and facts.get("STATE") == "active"
                user = facts.get("USER", facts.get("UID", "somebody"))
                found.append(_Session(user, facts.get("TTY", "").removeprefix("/dev/") or None, in_front))
        return found


def terminal_name(number: int) -> str | None:
    """Return the terminal of a device number, below /dev; None if it is not one that people type at."""
    major, minor = (number >> 8) & 0xFFF, (number & 0xFF) | ((number >> 12) & 0xFFF00)
    if major in _PTS_MAJORS:
        return f"pts/{(major - _PTS_MAJORS.start) * 256 + minor}"
    if major == _CONSOLE_MAJOR:
        return f"tty{minor}" if minor < _FIRST_SERIAL else f"ttyS{minor - _FIRST_SERIAL}"
    return None
