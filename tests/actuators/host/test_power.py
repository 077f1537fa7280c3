"""The power goes through a stand-in `systemctl`: nothing else is on the PATH of these tests."""

import os
import pathlib

import pytest

from fallow.actuators.host.power import DryRunPower, PowerAction, SystemPower
from fallow.actuators.host.write_terminals import write_to
from fallow.core.actions import PowerOff, Reboot
from fallow.core.findings import Outcome

SHUTDOWN, REBOOT = PowerOff(), Reboot()


class Machine:
    """A folder of stand-in programs, each of which writes down how it was called."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.calls = folder / "calls"
        self.environ = {"PATH": str(self.bin), "CALLS": str(self.calls)}

    def has(self, name: str, then: str = "") -> None:
        program = self.bin / name
        program.write_text(f'#!/bin/sh\necho "{name}${{*:+ }}$*$(/bin/cat)" >> "$CALLS"\n{then}\n')
        program.chmod(0o755)

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []

    def power(self) -> SystemPower:
        return SystemPower(self.environ)


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    return Machine(tmp_path)


NO_COMMAND = "there is neither systemctl nor shutdown on the PATH"


@pytest.mark.parametrize(
    ("programs", "action", "words", "called"),
    [
        ({"systemctl": "", "shutdown": ""}, SHUTDOWN, "systemctl poweroff: no work", ["systemctl poweroff"]),
        ({"systemctl": "", "shutdown": ""}, REBOOT, "systemctl reboot: no work", ["systemctl reboot"]),
        ({"shutdown": ""}, SHUTDOWN, "shutdown -h: no work", ["shutdown -h now no work"]),
        ({"shutdown": ""}, REBOOT, "shutdown -r: no work", ["shutdown -r now no work"]),
        (
            {"systemctl": "echo Access denied >&2; exit 1", "shutdown": ""},
            SHUTDOWN,
            "could not turn the machine off: systemctl says: Access denied",
            ["systemctl poweroff"],
        ),
        ({}, SHUTDOWN, f"could not turn the machine off: {NO_COMMAND}", []),
    ],
)
def test_one_program_is_called_once_with_the_right_words(
    machine: Machine, programs: dict[str, str], action: PowerAction, words: str, called: list[str]
) -> None:
    for name, then in programs.items():
        machine.has(name, then)
    outcome = machine.power().do(action, "no work")
    assert outcome == Outcome(not words.startswith("could not"), words)
    assert machine.called() == called


def test_a_dry_run_calls_nothing(machine: Machine) -> None:
    machine.has("systemctl")
    machine.has("wall")
    power = DryRunPower(machine.power())
    assert power.do(SHUTDOWN, "no work").words == "would turn the machine off: no work"
    assert power.do(REBOOT, "no work").words == "would restart the machine: no work"
    assert power.announce("off in 60 s").words == "would announce to all terminals: off in 60 s"
    assert machine.called() == []


@pytest.mark.as_root
def test_what_cannot_be_done_is_known_at_the_start(machine: Machine) -> None:
    way = "add the folder of one of them to the PATH"
    assert str(machine.power().can(SHUTDOWN)) == f"cannot turn the machine off: {NO_COMMAND}; {way}"
    assert str(DryRunPower(machine.power()).can(REBOOT)) == f"cannot restart the machine: {NO_COMMAND}; {way}"
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
    os.seteuid(65534)
    try:
        answer = machine.power().can(SHUTDOWN)
    finally:
        os.seteuid(0)
    told = f"not permitted to turn the machine off: {why}; run as root, or permit it with polkit"
    assert str(answer) == ("None" if why is None else told)
    assert all(call.startswith("busctl call") for call in machine.called())


def test_what_is_announced_goes_through_wall_and_reaches_no_terminal_raw(machine: Machine) -> None:
    """V13 and Weak: a reason of somebody else's is part of what is announced."""
    bait = "held by eve: \x1b[2J\x07\u202egnihton\nfallow: all is well\r\x9b31m"
    assert not machine.power().announce(bait).ok
    machine.has("wall")
    assert machine.power().announce(bait).ok
    (said,) = machine.called()
    assert said.startswith("wallfallow: held by eve"), "on its stdin"
    ours, terminal = os.openpty()
    try:
        assert write_to([os.ttyname(terminal), "/dev/no-such-terminal"], bait) == [os.ttyname(terminal)]
        assert os.read(ours, 1000).decode().strip("\r\n") == said.removeprefix("wall")
    finally:
        os.close(ours)
        os.close(terminal)
    assert said.isprintable()
