"""Signals that are held back are fetched once each, with their sender, and none that never came."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

WAITS = """
import json, signal
from fallow.actuators.process.held_signals import HeldSignals
held = HeldSignals({signal.SIGUSR1, signal.SIGCONT})
print("waits", flush=True)
came = [held.fetch(0.2) for _ in range(8)]
print(json.dumps([(each.number, each.sender) for each in came if each]), flush=True)
held.release()
"""


@pytest.mark.more
def test_signals_are_fetched_once_with_who_sent_them_and_none_that_never_came() -> None:
    """Python's own function returns a random signal where it was stopped until its time was over."""
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "waits\n"
        waiting.send_signal(signal.SIGUSR1)
        for _ in range(3):
            waiting.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, waiting.pid, os.WSTOPPED)
            time.sleep(0.3)  # its time passes while it cannot wait
            waiting.send_signal(signal.SIGCONT)
        told = json.loads(waiting.stdout.read())
    assert waiting.returncode == 0
    sent = [[number, os.getpid()] for number in (signal.SIGUSR1, signal.SIGCONT)]
    assert told[0] == sent[0]
    assert told[1:]
    assert all(each == sent[1] for each in told[1:])
