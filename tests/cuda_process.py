"""A process that uses CUDA, for tests: it computes one Python expression after another, and stays.

The expressions may use `driver` (cuda-bindings) and the functions below.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from cuda.bindings import driver

from tests.waiting import end


class CudaProcess:
    """The process, seen from the test."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cuda_process"],
            env={**os.environ, **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def __call__(self, expression: str) -> Any:
        """What the expression is there."""
        self.begin(expression)
        return self.answer()

    def begin(self, expression: str) -> None:
        """Let it compute; `answer` waits for the end."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(expression) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def kill(self) -> None:
        end(self._process)


def code(answer: tuple[Any, ...]) -> int:
    """Of what a call answers."""
    return int(answer[0])


def attempt(name: str, *given: Any) -> int | str:
    """The code of a call, or what cuda-bindings says of one that the driver does not have."""
    try:
        return code(getattr(driver, name)(*given))
    except RuntimeError as error:
        return str(error)


def context(device: int = 0) -> int:
    """Begin CUDA and have a context on a card; the code of what failed first, or 0."""
    begun = code(driver.cuInit(0))
    if begun:
        return begun
    answer = driver.cuDevicePrimaryCtxRetain(device)
    return code(answer) or code(driver.cuCtxSetCurrent(answer[1]))


def take(size: int) -> int:
    """The place of so much memory; the negative code of a failure."""
    answer = driver.cuMemAlloc(size)
    return int(answer[1]) if code(answer) == 0 else -code(answer)


def reserve(size: int) -> int:
    """The handle of so much memory that is mapped nowhere; the negative code of a failure."""
    kind = driver.CUmemAllocationProp()
    kind.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    kind.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    answer = driver.cuMemCreate(size, kind, 0)
    return int(answer[1]) if code(answer) == 0 else -code(answer)


def serve() -> None:
    """Answer until stdin ends."""
    for line in sys.stdin:
        print(json.dumps(eval(json.loads(line), globals())), flush=True)


if __name__ == "__main__":
    serve()
