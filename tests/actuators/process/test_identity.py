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
from tests.actuators.process.stage import job, play
from tests.places import LIMIT_S


def process(pid: int) -> Process:
    stat = Proc().stat(pid)
    assert stat is not None
    return Process(pid, stat.birth)


def test_a_reused_pid_is_never_signalled() -> None:
    with play(job("ends_on_term")) as scene:
        assert scene.line() == "ready"
        there = process(scene.wrapper.pid)
        before = Process(there.pid, there.birth - 1)
        assert Handle.open(Proc(), before, signals.untouchable(Proc())) is None
        assert scene.wrapper.poll() is None


def test_a_signal_through_a_handle_never_reaches_who_has_the_pid_later() -> None:
    child = subprocess.Popen(["true"])
    handle = Handle.open(Proc(), process(child.pid), signals.untouchable(Proc()))
    assert handle is not None
    with handle:
        child.wait(LIMIT_S)
        assert not handle.send(signal.SIGKILL)


def test_a_process_that_is_gone_is_nobody() -> None:
    child = subprocess.Popen(["true"])
    gone = process(child.pid)
    child.wait(LIMIT_S)
    assert Handle.open(Proc(), gone, signals.untouchable(Proc())) is None


@pytest.mark.parametrize("who", ["ourselves", "our parent", "our oldest ancestor", "pid 1"])
def test_fallow_and_those_it_lives_by_are_never_signalled(who: str) -> None:
    ancestors = list(Proc().ancestors(os.getpid()))
    pid = {"ourselves": os.getpid(), "our parent": os.getppid(), "our oldest ancestor": ancestors[-1], "pid 1": 1}[
        who
    ]
    with pytest.raises(NotPermitted, match=f"never signals pid {pid}"):
        Handle.open(Proc(), process(pid), signals.untouchable(Proc()))


def test_every_ancestor_is_untouchable() -> None:
    assert {0, 1, os.getpid(), *Proc().ancestors(os.getpid())} == signals.untouchable(Proc())


@pytest.mark.as_root
def test_the_right_to_signal_is_known_without_a_signal() -> None:
    with play(job("ends_on_term")) as scene:
        assert scene.line() == "ready"
        handle = Handle.open(Proc(), process(scene.wrapper.pid), signals.untouchable(Proc()))
        assert handle is not None
        with handle:
            assert handle.may_signal()
            os.setresuid(65534, 65534, 0)
            try:
                assert not handle.may_signal()
            finally:
                os.setresuid(0, 0, 0)
        assert scene.wrapper.poll() is None
