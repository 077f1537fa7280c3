"""Find out who is at this machine, and for how long they have typed nothing.

People are found in three places, whichever the system has: utmp, logind's files, and the terminals themselves,
which exist wherever a person types, even if no login is recorded. A terminal's access time says when it was last
used. It is in system time, which can be set, so after the first look the monotonic time at which it changed counts.
The kernel moves the access time in steps of eight seconds.

The keys that are pressed at a desktop move no terminal, so of a desktop in front it is unknown for how long nobody
has been there.

An empty place is no record: some systems leave one behind that nothing writes to. Without any record, it is Unknown
who is here.
"""

import os
import stat
import struct
from collections.abc import Iterator

from fallow.core.ports import Clock
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.readers.proc import Proc, Stat, user_name

LEAST_IDLE_S = 10.0
"""The shortest absence that can be seen: the access time of a terminal moves in steps of eight seconds."""

_USER_PROCESS = 7
_KNOWN_TYPES = range(10)
# struct utmp up to the host; the records of 64-bit ARM are longer, since their times are.
_HEAD = struct.Struct("<h2xi32s4s32s")
_RECORD_BYTES = (384, 400)
_MOST_BYTES = 4 << 20
_MOST_OF_SESSION = 8192
_LOOK_FOR_TERMINAL_EVERY_S = 10.0
_MOST_SEARCHED = 16  # sessions of one user whose terminal is looked for
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

    def __init__(
        self,
        clock: Clock,
        utmp: str = "/run/utmp",
        sessions: str = "/run/systemd/sessions",
        devices: str = "/dev",
        proc: Proc | None = None,
    ) -> None:
        self._clock = clock
        self._utmp = utmp
        self._sessions = sessions
        self._devices = devices
        self._proc = Proc() if proc is None else proc
        self._touched: dict[str, tuple[float, float]] = {}
        self._of_leader: dict[int, tuple[float, str | None]] = {}
        self._desktops: set[str] = set()
        """The terminals behind desktops, by the last look at logind's files."""

    def people(self) -> list[Person] | Unknown:
        """Return all people who are logged in; Unknown if there is no record, or it makes no sense."""
        in_utmp, in_logind, at_terminals = self._in_utmp(), self._in_logind(), self._at_terminals()
        if isinstance(in_utmp, Unknown) and in_logind is None:
            return in_utmp
        if in_utmp is None and in_logind is None and at_terminals is None:
            return Unknown(
                f"there is no record of who is here: neither {self._utmp}, {self._sessions} nor {self._devices}/pts"
            )
        recorded = [] if in_utmp is None or isinstance(in_utmp, Unknown) else in_utmp
        found = dict.fromkeys((*recorded, *(in_logind or ())))
        known = {terminal for _, terminal in found}
        found |= dict.fromkeys(each for each in at_terminals or () if each[1] not in known)
        idle_s = {terminal: self._idle_s(terminal) for _, terminal in found if terminal is not None}
        self._touched = {terminal: self._touched[terminal] for terminal in idle_s if terminal in self._touched}
        nowhere = Unknown("not to be told: their session has no terminal")
        return [Person(user, terminal, nowhere if terminal is None else idle_s[terminal]) for user, terminal in found]

    def sources(self) -> list[str]:
        """Return which records this system has."""
        found = {
            self._utmp: self._in_utmp(),
            self._sessions: self._in_logind(),
            f"{self._devices}/pts": self._at_terminals(),
        }
        return [place for place, told in found.items() if told is not None and not isinstance(told, Unknown)]

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

    def _in_utmp(self) -> list[tuple[str, str | None]] | Unknown | None:
        try:
            with open(self._utmp, "rb") as file:
                raw = file.read(_MOST_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            return Unknown(f"{self._utmp}: {error.strerror}")
        if not raw:
            return None
        for size in _RECORD_BYTES:
            records = [_HEAD.unpack_from(raw, at) for at in range(0, len(raw) - size + 1, size)]
            if len(raw) % size == 0 and all(record[0] in _KNOWN_TYPES for record in records):
                return [(_text(user), _text(line)) for kind, _, line, _, user in records if kind == _USER_PROCESS]
        return Unknown(f"{self._utmp} makes no sense")

    def _in_logind(self) -> list[tuple[str, str | None]] | None:
        self._desktops = set()
        try:
            names = os.listdir(self._sessions)
        except OSError:
            return None
        if not names:
            return None
        found: list[tuple[str, str | None]] = []
        searched: dict[str, int] = {}
        below = _Below(self._proc)
        for name in names:
            facts = self._session(name)
            if facts.get("CLASS", "user").startswith("user") and facts and facts.get("STATE") != "closing":
                user = facts.get("USER", facts.get("UID", "somebody"))
                terminal = facts["TTY"].removeprefix("/dev/") if facts.get("TTY") else None
                if facts.get("TYPE") in _DESKTOPS and facts.get("STATE") == "active":
                    self._desktops |= {terminal} if terminal is not None else set()
                elif terminal is None:  # beyond so many it is unknown for how long they have typed nothing
                    searched[user] = searched.get(user, 0) + 1
                    terminal = self._terminal_of(facts, below) if searched[user] <= _MOST_SEARCHED else None
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

    def _terminal_of(self, facts: dict[str, str], below: "_Below") -> str | None:
        """Return the terminal of a session that does not name one, as with ssh on systems without utmp."""
        leader = facts.get("LEADER", "")
        if not (leader.isascii() and leader.isdigit() and len(leader) < 10):
            return None
        now_s = self._clock.monotonic_s()
        looked_s, terminal = self._of_leader.get(int(leader), (float("-inf"), None))
        if now_s - looked_s >= _LOOK_FOR_TERMINAL_EVERY_S:
            names = (terminal_name(row.terminal) for row in below.of(int(leader)))
            terminal = next((name for name in names if name is not None), None)
            if len(self._of_leader) > 1000:
                self._of_leader.clear()
            self._of_leader[int(leader)] = (now_s, terminal)
        return terminal


class _Below:
    """The processes below others, from one reading of all processes for all sessions."""

    def __init__(self, proc: Proc) -> None:
        self._proc = proc
        self._children: dict[int, list[Stat]] | None = None

    def of(self, pid: int) -> Iterator[Stat]:
        """Yield all processes below this one."""
        if self._children is None:
            self._children = {}
            for row in self._proc.everybody():
                self._children.setdefault(row.parent, []).append(row)
        todo = [pid]
        while todo:
            rows = self._children.get(todo.pop(), [])
            yield from rows
            todo.extend(row.pid for row in rows)


def terminal_name(number: int) -> str | None:
    """Return the terminal of a device number, below /dev; None if it is not one that people type at."""
    major, minor = (number >> 8) & 0xFFF, (number & 0xFF) | ((number >> 12) & 0xFFF00)
    if major in _PTS_MAJORS:
        return f"pts/{(major - _PTS_MAJORS.start) * 256 + minor}"
    if major == _CONSOLE_MAJOR:
        return f"tty{minor}" if minor < _FIRST_SERIAL else f"ttyS{minor - _FIRST_SERIAL}"
    return None


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode(errors="replace")
