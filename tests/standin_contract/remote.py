"""A process that reads through the stand-in library on behalf of a test.

The library is loaded by its name alone, once in a process and for good; reading in another
process keeps it out of the one that runs the tests.
"""

import contextlib
import ctypes
import os
import pathlib
import pickle
import subprocess
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import pynvml

from tests.waiting import end


def use_world(path: str) -> None:
    os.environ["FALLOW_STANDIN_WORLD"] = path


def end_library() -> None:
    pynvml.nvmlShutdown()


def count_and_answer(room: int) -> tuple[int, int]:
    """List the processes of card 0 into so much room: the code, and how many there are."""
    count = ctypes.c_uint(room)
    rows = (pynvml.c_nvmlProcessInfo_v2_t * room)()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    answer = pynvml.nvmlLib.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), rows)
    return answer, count.value


class Ref:
    """A handle that lives in the reading process."""

    def __init__(self, number: int) -> None:
        self.number = number


class Reader:
    """Calls of the binding, made in a process of its own: reader.nvmlDeviceGetCount()."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        root = pathlib.Path(__file__).resolve().parents[__name__.count(".")]
        path = os.pathsep.join([str(root), *filter(None, sys.path)])
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"import {__name__} as remote; remote.serve()"],
            env={**os.environ, **environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def _ask(self, target: Any, args: tuple[Any, ...]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((target, args), self._process.stdin)
        self._process.stdin.flush()
        outcome, value = pickle.load(self._process.stdout)
        if outcome == "nvml":
            raise pynvml.NVMLError(value)
        if outcome == "failed":
            raise AssertionError(value)
        return value

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        return lambda *args: self._ask(name, args)

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function of an importable module over there."""
        return self._ask(function, args)

    def close(self) -> None:
        end(self._process)


def code_of(call: Callable[[], Any]) -> int:
    """The NVML code that a call ends with."""
    try:
        call()
    except pynvml.NVMLError as error:
        return int(error.value)
    return int(pynvml.NVML_SUCCESS)


class _Server:
    def __init__(self) -> None:
        self.kept: list[Any] = []

    def unpack(self, value: Any) -> Any:
        return self.kept[value.number] if isinstance(value, Ref) else value

    def pack(self, value: Any) -> Any:
        if isinstance(value, ctypes._Pointer):
            self.kept.append(value)
            return Ref(len(self.kept) - 1)
        if isinstance(value, ctypes.Structure):
            fields = {f[0]: self.pack(getattr(value, f[0])) for f in value._fields_}
            return types.SimpleNamespace(**fields)
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, ctypes._SimpleCData):
            return value.value
        if isinstance(value, ctypes.Union):
            return value.uiVal
        if isinstance(value, ctypes.Array | list | tuple):
            return [self.pack(item) for item in value]
        if type(value).__name__ == "nvmlFriendlyObject":
            return types.SimpleNamespace(**vars(value))
        return value

    def answer(self, target: Any, args: tuple[Any, ...]) -> tuple[str, Any]:
        function = getattr(pynvml, target) if isinstance(target, str) else target
        try:
            return "ok", self.pack(function(*map(self.unpack, args)))
        except pynvml.NVMLError as error:
            return "nvml", error.value
        except Exception as error:  # noqa: BLE001  whatever it was, the test is to be told
            return "failed", repr(error)


def serve() -> None:
    """Answer requests until nobody asks any more."""
    server = _Server()
    replies = sys.stdout.buffer
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            target, args = pickle.load(sys.stdin.buffer)
            pickle.dump(server.answer(target, args), replies)
            replies.flush()
