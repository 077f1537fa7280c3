"""The power goes through a stand-in `systemctl`: nothing else is on the PATH of these tests."""

import os
import pathlib
from collections.abc import Callable

import pytest

from fallow.actuators.host.power import DryRunPower, PowerAction, SystemPower
from fallow.actuators.host.write_terminals import write_to

SHUTDOWN, REBOOT = PowerAction.SHUTDOWN, PowerAction.REBOOT


class Machine:
    """A folder of stand-in programs, each of which writes down how it was called."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.calls = folder / "calls"
        self.environ = {"PATH": str(self.bin), "CALLS": str(self.calls)}

    def has(self, name: str, then: str = "exit 0") -> None:
        program = self.bin / name
        program.write_text(f'#!/bin/sh\necho "{name}${{*:+ }}$*$(/bin/cat)" >> "$CALLS"\n{then}\n')
        program.chmod(0o755)

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []

    def power(self, terminals: tuple[str, ...] = ()) -> SystemPower:
        return SystemPower(self.environ, lambda: terminals)


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(("action", "words"), [(SHUTDOWN, "systemctl poweroff"), (REBOOT, "systemctl reboot")])
def test_systemctl_is_called_once_with_the_right_words(machine: Machine, action: PowerAction, words: str) -> None:
    machine.has("systemctl")
    machine.has("shutdown")
    outcome = machine.power().do(action, "no work for 30 min")
    assert outcome.ok
    assert outcome.words == f"{words}: no work for 30 min"
    assert machine.called() == [words]


@pytest.mark.parametrize(("action", "option"), [(SHUTDOWN, "-h"), (REBOOT, "-r")])
def test_without_systemctl_shutdown_is_called(machine: Machine, action: PowerAction, option: str) -> None:
    machine.has("shutdown")
    assert machine.power().do(action, "no work").ok
    assert machine.called() == [f"shutdown {option} now no work"]


def test_a_failure_is_told_and_nothing_else_is_tried(machine: Machine) -> None:
    machine.has("systemctl", "echo Access denied >&2; exit 1")
    machine.has("shutdown")
    outcome = machine.power().do(SHUTDOWN, "no work")
    assert not outcome.ok
    assert outcome.words == "could not turn the machine off: systemctl says: Access denied"
    assert machine.called() == ["systemctl poweroff"]


def test_a_dry_run_calls_nothing(machine: Machine) -> None:
    machine.has("systemctl")
    machine.has("wall")
    power = DryRunPower(machine.power())
    assert power.do(SHUTDOWN, "no work").words == "would turn the machine off: no work"
    assert power.do(REBOOT, "no work").words == "would restart the machine: no work"
    assert power.announce("off in 60 s").words == "would announce to all terminals: off in 60 s"
    assert machine.called() == []


def test_a_machine_without_the_programs_says_so_at_the_start(machine: Machine) -> None:
    why = "there is neither systemctl nor shutdown on the PATH"
    way = "add the folder of one of them to the PATH"
    assert str(machine.power().can(SHUTDOWN)) == f"cannot turn the machine off: {why}; {way}"
    assert str(DryRunPower(machine.power()).can(REBOOT)) == f"cannot restart the machine: {why}; {way}"
    assert machine.power().do(SHUTDOWN, "no work").words == f"could not turn the machine off: {why}"


@pytest.mark.as_root
def test_root_can(machine: Machine) -> None:
    machine.has("systemctl")
    assert machine.power().can(SHUTDOWN) is None
    assert machine.called() == []


@pytest.mark.as_root
@pytest.mark.parametrize(
    ("busctl", "why"),
    [
        ("""echo 's "yes"'""", None),
        ("""echo 's "challenge"'""", 'not root, and logind, asked CanPowerOff, answers s "challenge"'),
        ("echo No bus >&2; exit 1", "not root, and logind, asked CanPowerOff, answers No bus"),
        (None, "not root, and without busctl logind cannot be asked"),
    ],
)
def test_others_can_if_logind_lets_them(open_folder: pathlib.Path, busctl: str | None, why: str | None) -> None:
    machine = Machine(open_folder)
    machine.calls.touch()
    machine.calls.chmod(0o666)
    machine.has("systemctl")
    if busctl is not None:
        machine.has("busctl", busctl)
    answer = as_nobody(lambda: str(machine.power().can(SHUTDOWN)))
    told = f"not permitted to turn the machine off: {why}; run as root, or permit it with polkit"
    assert answer == ("None" if why is None else told)
    assert all(call.startswith("busctl call") for call in machine.called())


def as_nobody(ask: Callable[[], str | None]) -> str | None:
    os.seteuid(65534)
    try:
        return ask()
    finally:
        os.seteuid(0)


def test_an_announcement_goes_through_wall(machine: Machine) -> None:
    machine.has("wall")
    assert machine.power().announce("off in 60 s, `fallow protect` stops it").ok
    assert machine.called() == ["wallfallow: off in 60 s, `fallow protect` stops it"], "on its stdin"


def test_what_others_wrote_reaches_no_terminal_raw(machine: Machine) -> None:
    """V13 and Weak: a reason of somebody else's is part of what is announced."""
    bait = "held by eve: \x1b[2J\x07\u202egnihton\nfallow: all is well\r\x9b31m"
    machine.has("wall")
    machine.power().announce(bait)
    (said,) = machine.called()
    ours, terminal = os.openpty()
    try:
        write_to([os.ttyname(terminal)], bait)
        shown = os.read(ours, 1000).decode().strip("\r\n")
    finally:
        os.close(ours)
        os.close(terminal)
    for line in (said, shown):
        assert line.isprintable(), line


def test_without_wall_an_announcement_is_written_to_the_terminals(machine: Machine) -> None:
    ours, terminal = os.openpty()
    try:
        outcome = machine.power((os.ttyname(terminal), "/dev/no-such-terminal")).announce("off in 60 s")
        assert outcome.ok
        assert outcome.words == f"announced on {os.ttyname(terminal)}"
        assert b"fallow: off in 60 s" in os.read(ours, 1000)
    finally:
        os.close(ours)
        os.close(terminal)


def test_an_announcement_that_reaches_nobody_is_told(machine: Machine) -> None:
    assert machine.power().announce("off in 60 s").words == "no terminal could be written to"
