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
print(json.dumps([(each.number, each.is_from_a_process, each.pid) for each in came if each]), flush=True)
held.release()
"""


@pytest.mark.more
def test_who_is_stopped_until_its_time_is_over_fetches_nothing_that_did_not_come() -> None:
    """Python's own function returned a random signal then, which fallow would have sent to the job."""
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "waits\n"
        for _ in range(3):
            waiting.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, waiting.pid, os.WSTOPPED)
            time.sleep(0.3)  # its time passes while it cannot wait
            waiting.send_signal(signal.SIGCONT)
        told = json.loads(waiting.stdout.read())
    assert waiting.returncode == 0
    assert told
    assert all(each == [signal.SIGCONT, True, os.getpid()] for each in told)


@pytest.mark.more
def test_a_signal_is_fetched_once_with_who_sent_it() -> None:
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "waits\n"
        waiting.send_signal(signal.SIGUSR1)
        assert json.loads(waiting.stdout.read()) == [[signal.SIGUSR1, True, os.getpid()]]
