"""Who is logged in, and since when they have touched nothing."""

import os
import pathlib
import struct

import pytest

from fallow.core.unknown import Unknown
from fallow.readers.terminals import Person, Terminals
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


def test_a_system_that_keeps_no_record_makes_people_unknown(place: Place) -> None:
    assert isinstance(place.terminals.people(), Unknown)


@pytest.mark.parametrize("junk", [b"\xff" * 1000, b"x" * 384, b"\0" * 100])
def test_a_record_that_makes_no_sense_is_unknown_and_not_nobody(place: Place, junk: bytes) -> None:
    (place.root / "utmp").write_bytes(junk)
    assert isinstance(place.terminals.people(), Unknown)


def test_a_record_that_cannot_be_read_is_unknown_and_not_nobody(place: Place) -> None:
    (place.root / "utmp").mkdir()
    assert isinstance(place.terminals.people(), Unknown)


def test_an_empty_record_means_that_nobody_is_there(place: Place) -> None:
    (place.root / "utmp").write_bytes(b"")
    assert place.people() == []
