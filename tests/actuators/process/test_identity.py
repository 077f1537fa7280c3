"""Nobody is signalled who is not meant."""

import os
import signal
import subprocess

import pytest

from fallow.actuators.process import signals
from fallow.actuators.process.signals import Handle
from fallow.core.errors import NotPermitted
from fallow.core.process import Process
from fallow.readers.proc import Proc
from tests.places import LIMIT_S


def process(pid: int) -> Process:
    stat = Proc().stat(pid)
    assert stat is not None
    return Process(pid, stat.birth)


def test_a_signal_never_reaches_who_has_the_pid_before_or_later() -> None:
    child = subprocess.Popen(["sleep", "60"])
    there = process(child.pid)
    handle = Handle.open(Proc(), there, ())
    assert handle is not None
    with handle:
        assert Handle.open(Proc(), Process(there.pid, there.birth - 1), ()) is None
        child.kill()
        child.wait(LIMIT_S)
        assert not handle.send(signal.SIGKILL)
    assert Handle.open(Proc(), there, ()) is None


def test_fallow_and_those_it_lives_by_are_never_signalled() -> None:
    never = signals.untouchable(Proc())
    assert {0, 1, os.getpid(), os.getppid(), *Proc().ancestors(os.getpid())} == never
    for pid in never - {0}:
        with pytest.raises(NotPermitted, match=f"never signals pid {pid}"):
            Handle.open(Proc(), process(pid), never)


@pytest.mark.as_root
def test_the_right_to_signal_is_known_without_a_signal() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        handle = Handle.open(Proc(), process(child.pid), ())
        assert handle is not None
        with handle:
            assert handle.may_signal()
            os.setresuid(65534, 65534, 0)
            try:
                assert not handle.may_signal()
                assert not handle.send(signal.SIGKILL)
            finally:
                os.setresuid(0, 0, 0)
            assert not handle.ended()
            child.kill()
