"""A command that must restore something ends by the first signal, after it has restored it."""

import signal
import subprocess
import sys

import pytest

from tests.places import LIMIT_S

# The second signal comes in the middle of what the first one began: in the handler itself, or while it is unwound.
PROGRAM = """
import os, signal, sys
from fallow.interfaces.signals import interruptible

def second(frame, event, argument):
    if frame.f_code.co_name == "come" and event == WHEN:
        sys.settrace(None)
        os.kill(os.getpid(), signal.SIGHUP)
    return second

with interruptible():
    try:
        sys.settrace(second)
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000): pass
        print("not interrupted")
    finally:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000): pass
        print("restored", flush=True)
"""


@pytest.mark.parametrize("when", ["call", "line", "exception", "return"])
def test_a_second_signal_while_the_first_is_handled_breaks_nothing_off(when: str) -> None:
    words = [sys.executable, "-c", PROGRAM.replace("WHEN", repr(when))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.stdout, done.stderr) == ("restored\n", "")
    assert done.returncode in (-signal.SIGTERM, -signal.SIGHUP)


WORKS = """
import os
from fallow.interfaces.signals import interruptible

with interruptible():
    try:
        print("up", flush=True)
        while True: os.stat("/")
    finally:
        print("restored", flush=True)
"""


@pytest.mark.parametrize("nth", range(10))
def test_two_signals_from_outside_end_it_as_one_does(nth: int) -> None:
    first, second = (signal.SIGTERM, signal.SIGHUP) if nth % 2 else (signal.SIGHUP, signal.SIGTERM)
    program = subprocess.Popen(
        [sys.executable, "-c", WORKS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "up\n"
    program.send_signal(first)
    program.send_signal(second)
    assert program.communicate(timeout=LIMIT_S) == ("restored\n", "")
    assert program.returncode in (-first, -second)


POSTPONED = """
import os, signal
from fallow.interfaces.signals import interruptible

with interruptible() as interruption:
    try:
        with interruption.postponed():
            os.kill(os.getpid(), signal.SIGHUP)
            for _ in range(1000): pass
            print("begun and noted", flush=True)
        print("not interrupted")
    finally:
        print("restored", flush=True)
"""


def test_what_is_begun_and_noted_in_one_step_is_whole_before_a_signal_ends_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", POSTPONED], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert (done.stdout, done.stderr) == ("begun and noted\nrestored\n", "")
    assert done.returncode == -signal.SIGHUP


# A signal that another thread gets breaks off no system call of this one, as one that comes just before the call.
UNNOTICED = """
import os, signal, sys, threading
from fallow.interfaces.signals import interruptible, wait_for_input

waiting = threading.main_thread().ident

def come():
    while sys._current_frames()[waiting].f_code.co_name != "wait_for_input": pass
    for _ in range(1000): os.stat("/")  # lets the other thread go on
    signal.raise_signal(signal.SIGINT)

with interruptible():
    threading.Thread(target=come, daemon=True).start()
    wait_for_input(sys.stdin.fileno())
    print("read")
"""


def test_a_signal_ends_the_wait_for_an_answer_even_if_it_breaks_off_no_system_call() -> None:
    words = [sys.executable, "-c", UNNOTICED]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.wait(LIMIT_S) == -signal.SIGINT
        assert program.stdout is not None
        assert program.stdout.read() == b""
