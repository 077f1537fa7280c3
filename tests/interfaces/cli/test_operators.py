"""Operators: members of the group that the config names do on the socket what else only root may."""

import grp
import json

import pytest

from tests.security.conftest import machine
from tests.security.machine import ADA, Machine

__all__ = ["machine"]  # a fixture
pytestmark = pytest.mark.as_root

GROUP = min((each for each in grp.getgrall() if 0 < each.gr_gid < 61000), key=lambda each: each.gr_gid)
MEMBER, OTHER = f"61003:{GROUP.gr_gid}", 61002


def test_a_member_of_the_group_reloads_the_daemon_and_releases_any_protection_and_nobody_else_does(
    machine: Machine,
) -> None:
    running = machine.up(of_machine=f"operators = '{GROUP.gr_name}'")
    placed = machine.fallow(ADA, "protect", "gpu:0", "--for", "1h", "--json")
    number = str(json.loads(placed.stdout)["protections"][0]["id"])
    for words in (("up", "--reload"), ("protect", "--release", number)):
        refused = machine.fallow(OTHER, *words)
        assert (refused.returncode, refused.stdout) == (77, "")
    assert "only root, who runs the daemon, may make it reload" in machine.fallow(OTHER, "up", "--reload").stderr
    assert not running.told("config reloaded")
    assert number in machine.fallow(OTHER, "protect", "--list", "--json").stdout
    for words in (("up", "--reload"), ("protect", "--release", number)):
        done = machine.fallow(MEMBER, *words)
        assert done.returncode == 0, done.stderr
    running.until("config reloaded (reload 1)")
    assert number not in machine.fallow(OTHER, "protect", "--list", "--json").stdout


def test_a_group_that_does_not_exist_makes_nobody_an_operator(machine: Machine) -> None:
    running = machine.up(of_machine="operators = 'no-such-group'")
    assert running.told("there is no group 'no-such-group' on this machine")
    assert machine.fallow(MEMBER, "up", "--reload").returncode == 77
