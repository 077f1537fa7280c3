"""A process that reads through the stand-in NVML: it computes one Python expression after another, and stays.

The library is loaded by its name alone, once in a process and for good; another process keeps it out of the tests.
The expressions may use `nvml` (pynvml) and the functions below.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from ctypes import byref, c_uint
from typing import Any

import pynvml as nvml

from tests.waiting import end

OK, NOT_SUPPORTED, NOT_FOUND, INVALID_ARGUMENT, INSUFFICIENT_SIZE, LOST, UNKNOWN = 0, 3, 6, 2, 7, 15, 999


class Reader:
    """The process, seen from the test."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.standin_contract.remote"],
            env={**os.environ, **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, expression: str) -> Any:
        """What the expression is there."""
        print(json.dumps(expression), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())  # type: ignore[union-attr]

    def close(self) -> None:
        end(self._process)


def begin(path: str) -> None:
    """Start the library in a world."""
    os.environ["FALLOW_STANDIN_WORLD"] = path
    nvml.nvmlInit()


def code(call: Callable[[], Any]) -> int:
    """The code that a call ends with."""
    try:
        call()
    except nvml.NVMLError as error:
        return int(error.value)
    return OK


def card(index: int) -> Any:
    """The handle of a card."""
    return nvml.nvmlDeviceGetHandleByIndex(index)


def instance(index: int, slot: int) -> Any:
    """The handle of an instance."""
    return nvml.nvmlDeviceGetMigDeviceHandleByIndex(card(index), slot)


def used(device: Any) -> int:
    """Memory in use."""
    return int(nvml.nvmlDeviceGetMemoryInfo(device, nvml.nvmlMemory_v2).used)


def listed(device: Any, kind: str = "Compute") -> list[tuple[int, int | None]]:
    """Pid and memory of each process of that kind."""
    found = getattr(nvml, f"nvmlDeviceGet{kind}RunningProcesses_v3")(device)
    return [(entry.pid, entry.usedGpuMemory) for entry in found]


def into(room: int) -> tuple[int, int]:
    """List the processes of card 0 into so much room: the code, and how many there are."""
    count, rows = c_uint(room), (nvml.c_nvmlProcessInfo_v2_t * room)()
    answer = nvml.nvmlLib.nvmlDeviceGetComputeRunningProcesses_v3(card(0), byref(count), rows)
    return answer, count.value


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(eval(json.loads(line), globals())), flush=True)
