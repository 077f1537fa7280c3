"""Who is logged in, and since when they have touched nothing."""

import os
import pathlib
import pty
import signal
import struct
import sys

import pytest

from fallow.core.unknown import Unknown
from fallow.readers.proc import Proc, Stat, user_name
from fallow.readers.terminals import Person, Terminals, terminal_name
from tests.engine.driven import DrivenClock

USER_PROCESS, DEAD_PROCESS = 7, 8


def record(kind: int, line: str, user: str, size: int) -> bytes:
    return struct.pack("<h2xi32s4s32s", kind, 1, line.encode(), b"x", user.encode()).ljust(size, b"\0")


class Place:
    """A small machine with terminals."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.clock = DrivenClock()
        (root / "pts").mkdir()
        self.terminals = Terminals(self.clock, str(root / "utmp"), str(root / "sessions"), str(root))

    def touch(self, terminal: str, ago_s: float = 0.0) -> None:
        path = self.root / terminal
        path.touch()
        at = self.clock.wall_s() - ago_s
        os.utime(path, (at, at))

    def people(self) -> list[Person]:
        found = self.terminals.people()
        assert not isinstance(found, Unknown)
        return found


@pytest.fixture
def place(tmp_path: pathlib.Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("size", [384, 400], ids=["x86-64", "64-bit ARM"])
def test_people_are_found_in_utmp(place: Place, size: int) -> None:
    rows = [record(USER_PROCESS, "pts/0", "ada", size), record(DEAD_PROCESS, "pts/1", "bob", size)]
    (place.root / "utmp").write_bytes(b"".join(rows))
    place.touch("pts/0", ago_s=90.0)
    assert place.people() == [Person("ada", "pts/0", 90.0)]


def test_people_are_found_in_logind_and_nobody_twice(place: Place) -> None:
    (place.root / "utmp").write_bytes(record(USER_PROCESS, "pts/0", "ada", 384))
    (place.root / "sessions").mkdir()
    (place.root / "sessions" / "1").write_text("UID=5\nUSER=ada\nTTY=pts/0\nCLASS=user\nSTATE=active\n")
    (place.root / "sessions" / "2").write_text("UID=6\nUSER=bob\nTTY=pts/3\nCLASS=user\nSTATE=closing\n")
    (place.root / "sessions" / "3").write_text("UID=0\nUSER=root\nCLASS=manager\n")
    place.touch("pts/0")
    assert [person.user for person in place.people()] == ["ada"]


def test_a_desktop_with_the_end_of_a_line_in_its_name_ends_no_session(place: Place) -> None:
    (place.root / "sessions").mkdir()
    text = "UID=5\nUSER=ada\nTTY=pts/0\nCLASS=user\nSTATE=active\nDESKTOP=x\u2028STATE=closing\rSTATE=closing\n"
    (place.root / "sessions" / "1").write_text(text, newline="")
    people = place.terminals.people()
    assert not isinstance(people, Unknown)
    assert [each.user for each in people] == ["ada"]


@pytest.mark.parametrize(
    ("facts", "away"),
    [
        ("TYPE=wayland\nSTATE=active\n", False),
        ("TYPE=x11\nSTATE=active\n", False),
        ("TYPE=wayland\nSTATE=online\n", True),  # another one is in front
        ("TYPE=tty\nSTATE=active\n", True),
    ],
)
def test_a_person_at_a_desktop_is_never_taken_for_away_though_its_terminal_is_not_used(
    place: Place, facts: str, away: bool
) -> None:
    place.touch("tty2", ago_s=9000)
    (place.root / "sessions").mkdir()
    (place.root / "sessions" / "2").write_text(f"UID=5\nUSER=ada\nTTY=tty2\nCLASS=user\n{facts}")
    (place.root / "utmp").write_bytes(record(USER_PROCESS, "tty2", "ada", 384))
    found = {(each.user, each.terminal): each.idle_s for each in place.people()}
    assert set(found) == {("ada", "tty2")}
    assert isinstance(found["ada", "tty2"], Unknown) is not away


def test_a_desktop_without_a_terminal_counts_though_a_program_in_it_has_one(place: Place) -> None:
    (place.root / "sessions").mkdir()
    text = f"UID=5\nUSER=ada\nTYPE=wayland\nCLASS=user\nSTATE=active\nLEADER={os.getppid()}\n"
    (place.root / "sessions" / "2").write_text(text)
    (ada,) = (each for each in place.people() if each.user == "ada")
    assert (ada.terminal, isinstance(ada.idle_s, Unknown)) == (None, True)


def test_a_touch_begins_the_idle_time_anew_and_setting_the_clock_does_not(place: Place) -> None:
    (place.root / "utmp").write_bytes(record(USER_PROCESS, "pts/0", "ada", 384))
    place.touch("pts/0", ago_s=600.0)
    assert place.people()[0].idle_s == 600.0
    place.clock.sleep(60.0)
    place.clock.wall_offset_s += 3600.0
    assert place.people()[0].idle_s == 660.0
    place.clock.wall_offset_s -= 7200.0
    assert place.people()[0].idle_s == 660.0
    place.touch("pts/0")
    assert place.people()[0].idle_s == 0.0


def test_a_terminal_that_cannot_be_seen_is_unknown_and_not_idle(place: Place) -> None:
    (place.root / "utmp").write_bytes(record(USER_PROCESS, "pts/9", "ada", 384))
    assert isinstance(place.people()[0].idle_s, Unknown)


def test_a_system_without_any_source_makes_people_unknown(place: Place) -> None:
    """F25"""
    (place.root / "pts").rmdir()
    assert isinstance(place.terminals.people(), Unknown)


def test_records_that_nobody_writes_to_are_no_source(place: Place) -> None:
    """F25: an empty leftover of logind or of utmp says nothing."""
    (place.root / "utmp").write_bytes(b"")
    (place.root / "sessions").mkdir()
    (place.root / "pts").rmdir()
    assert isinstance(place.terminals.people(), Unknown)
    assert place.terminals.sources() == []


def test_terminals_that_nothing_records_are_people(place: Place) -> None:
    """F25"""
    (place.root / "sessions").mkdir()
    assert place.people() == [], "there is a place for terminals, and none in it"
    place.touch("pts/4", ago_s=30.0)
    place.touch("pts/ptmx")
    assert place.people() == [Person(user_name(os.geteuid()), "pts/4", 30.0)]
    assert place.terminals.sources() == [f"{place.root}/pts"]


def test_a_terminal_that_utmp_names_is_nobody_else_s(place: Place) -> None:
    """F25"""
    (place.root / "utmp").write_bytes(record(USER_PROCESS, "pts/0", "ada", 384))
    place.touch("pts/0")
    assert [person.user for person in place.people()] == ["ada"]


SSH = "UID=5\nUSER=ada\nSERVICE=sshd\nTYPE=tty\nCLASS=user\nSTATE=active\nREMOTE=1\nLEADER={leader}\n"


def test_a_session_of_ssh_that_names_no_terminal_counts_and_is_never_taken_for_away(place: Place) -> None:
    """F25"""
    (place.root / "sessions").mkdir()
    (place.root / "sessions" / "7").write_text(SSH.format(leader=2**22 + 1))
    (person,) = place.people()
    assert (person.user, person.terminal) == ("ada", None)
    assert isinstance(person.idle_s, Unknown)


def test_a_session_that_names_no_terminal_is_at_the_one_that_its_processes_have(place: Place) -> None:
    """F25: where there is no utmp, logind does not learn the terminal of an ssh session."""
    script = "import os; print(os.ttyname(0), flush=True); input()"
    leader, master = pty.fork()
    if leader == 0:
        os.execv("/bin/sh", ["sh", "-c", f"{sys.executable} -S -c '{script}'; true"])
    try:
        name = b""
        while not name.endswith(b"\n"):
            name += os.read(master, 100)
        terminal = name.decode().strip().removeprefix("/dev/")
        (place.root / "sessions").mkdir()
        (place.root / "sessions" / "7").write_text(SSH.format(leader=leader))
        place.touch(terminal, ago_s=60.0)
        assert place.people() == [Person("ada", terminal, 60.0)]
    finally:
        os.kill(leader, signal.SIGKILL)
        os.close(master)
        os.waitpid(leader, 0)


def test_a_terminal_has_the_name_of_its_number() -> None:
    assert terminal_name(0) is None
    main, other = pty.openpty()
    try:
        number, name = os.fstat(other).st_rdev, os.ttyname(other)
        encoded = (os.minor(number) & 0xFF) | (os.major(number) << 8) | ((os.minor(number) & ~0xFF) << 12)
        assert f"/dev/{terminal_name(encoded)}" == name
    finally:
        os.close(main)
        os.close(other)
    assert terminal_name((4 << 8) | 1) == "tty1"
    assert terminal_name((4 << 8) | 64) == "ttyS0"


@pytest.mark.parametrize("junk", [b"\xff" * 1000, b"x" * 384, b"\0" * 100])
def test_a_record_that_makes_no_sense_is_unknown_and_not_nobody(place: Place, junk: bytes) -> None:
    (place.root / "utmp").write_bytes(junk)
    assert isinstance(place.terminals.people(), Unknown)


def test_a_record_that_cannot_be_read_is_unknown_and_not_nobody(place: Place) -> None:
    (place.root / "utmp").mkdir()
    assert isinstance(place.terminals.people(), Unknown)


class CountingProc(Proc):
    """The processes of this machine, and how often all of them were read."""

    reads = 0

    def everybody(self) -> list[Stat]:
        """Count the reading."""
        self.reads += 1
        return super().everybody()


def test_the_processes_are_read_once_for_all_sessions_and_for_some_of_each_user(tmp_path: pathlib.Path) -> None:
    proc = CountingProc()
    terminals = Terminals(DrivenClock(), str(tmp_path / "utmp"), str(tmp_path / "sessions"), str(tmp_path), proc)
    (tmp_path / "sessions").mkdir()
    for number in range(300):
        text = f"UID=5\nUSER=ada\nLEADER={900_000_000 + number}\nCLASS=user\nSTATE=active\n"
        (tmp_path / "sessions" / str(number)).write_text(text)
    people = terminals.people()
    assert not isinstance(people, Unknown)
    assert [(each.user, isinstance(each.idle_s, Unknown)) for each in people] == [("ada", True)], (
        "in doubt she is here"
    )
    assert proc.reads == 1
    terminals.people()
    assert proc.reads == 1, "they are looked for every ten seconds"
