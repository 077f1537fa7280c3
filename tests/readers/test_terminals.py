"""Who is logged in, and since when they have touched nothing."""

import os
import pathlib
import pty

import pytest

from fallow.core.unknown import Unknown
from fallow.readers.accounts import user_name
from fallow.readers.terminals import Person, Terminals, terminal_name
from tests.harness import ManualClock


class Place:
    """A small machine with terminals."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.clock = ManualClock()
        (root / "pts").mkdir()
        self.terminals = Terminals(self.clock, str(root / "sessions"), str(root))

    def touch(self, terminal: str, ago_s: float = 0.0) -> None:
        path = self.root / terminal
        path.touch()
        at = self.clock.wall_s() - ago_s
        os.utime(path, (at, at))

    def session(self, number: int, facts: str) -> None:
        (self.root / "sessions").mkdir(exist_ok=True)
        (self.root / "sessions" / str(number)).write_text(facts, newline="")

    def people(self) -> list[Person]:
        found = self.terminals.people()
        assert not isinstance(found, Unknown)
        return found


@pytest.fixture
def place(tmp_path: pathlib.Path) -> Place:
    return Place(tmp_path)


ME = user_name(os.geteuid())


def test_people_are_found_in_logind_and_nobody_twice(place: Place) -> None:
    place.session(1, "UID=5\nUSER=ada\nTTY=pts/0\nCLASS=user\nSTATE=active\n")
    place.session(2, "UID=6\nUSER=bob\nTTY=pts/3\nCLASS=user\nSTATE=closing\n")
    place.session(3, "UID=0\nUSER=root\nCLASS=manager\n")
    os.mkfifo(place.root / "sessions" / "1.ref")  # as logind has one for each session
    place.touch("pts/0", ago_s=90.0)
    assert place.people() == [Person("ada", "pts/0", 90.0)]


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
    place.session(2, f"UID=5\nUSER=ada\nTTY=tty2\nCLASS=user\n{facts}")
    found = {(each.user, each.terminal): each.idle_s for each in place.people()}
    assert set(found) == {("ada", "tty2")}
    assert isinstance(found["ada", "tty2"], Unknown) is not away


def test_a_desktop_without_a_terminal_counts_though_a_program_in_it_has_one(place: Place) -> None:
    place.session(2, f"UID=5\nUSER={ME}\nTYPE=wayland\nCLASS=user\nSTATE=active\n")
    place.touch("pts/4", ago_s=9000.0)
    assert {(each.terminal, isinstance(each.idle_s, Unknown)) for each in place.people()} == {
        (None, True),
        ("pts/4", False),
    }


def test_a_touch_begins_the_idle_time_anew_and_setting_the_clock_does_not(place: Place) -> None:
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
    place.session(1, "UID=5\nUSER=ada\nTTY=pts/9\nCLASS=user\nSTATE=active\n")
    assert isinstance(place.people()[0].idle_s, Unknown)


def test_without_any_record_it_is_unknown_who_is_here_and_an_empty_one_of_logind_is_none(place: Place) -> None:
    """F25"""
    (place.root / "pts").rmdir()
    assert isinstance(place.terminals.people(), Unknown)
    (place.root / "sessions").mkdir()
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


SSH = "UID=5\nUSER={user}\nSERVICE=sshd\nTYPE=tty\nCLASS=user\nSTATE=active\nREMOTE=1\n"


def test_a_session_without_a_terminal_counts_if_its_user_has_none_and_is_never_taken_for_away(place: Place) -> None:
    """F25: logind does not learn the terminal of an ssh session."""
    place.session(7, SSH.format(user=ME))
    (person,) = place.people()
    assert (person.user, person.terminal) == (ME, None)
    assert isinstance(person.idle_s, Unknown)
    place.touch("pts/0", ago_s=60.0)
    assert place.people() == [Person(ME, "pts/0", 60.0)]


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
