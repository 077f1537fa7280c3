"""One of the two, theirs or ours, in a process that stays: each line on stdin is a question, each answer a line.

    python asked.py SELECT_MODULE SENTINEL_MODULE

Questions, in JSON: {"select": parameters}, {"status": parameters}, {"usage": devices},
{"sentinel": parameters, "values": [...]}. An answer is {"is": value} or {"raised": class name}.
"""

import importlib
import json
import os
import subprocess
import sys
import types
from collections.abc import Mapping
from typing import Any

from tests.waiting import end


class Asked:
    """The process, seen from the test."""

    def __init__(self, select: str, sentinel: str, environ: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, select, sentinel],
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, **question: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def leave(self) -> None:
        end(self._process)


def watched(sentinel: Any, parameters: dict[str, Any], values: list[float]) -> list[list[object]]:
    """State and calls of `kill_fn` after each value, up to the first call."""
    calls: list[None] = []
    subject = sentinel.Sentinel(**parameters, kill_fn=lambda: calls.append(None))
    told: list[list[object]] = []
    for value in values:
        if not calls:
            subject.tick(value)
            told.append([subject.state.name, len(calls)])
    return told


def answer(question: dict[str, Any], select: Any, sentinel: Any) -> object:
    match question:
        case {"select": parameters}:
            return select.gpuselect(**parameters, set_cvd=False)
        case {"status": parameters}:
            return [row if isinstance(row, dict) else row._asdict() for row in select.gpustatus(**parameters)]
        case {"usage": devices}:
            return sentinel.get_gpu_usage(device_ids=devices)
        case {"sentinel": parameters, "values": values}:
            return watched(sentinel, parameters, values)
    raise ValueError(question)


def serve(select_name: str, sentinel_name: str) -> None:
    """Answer until stdin ends."""
    if sys.version_info >= (3, 12):  # GPUtil imports this part of Python, which is gone, and uses it on Windows only
        sys.modules["distutils"] = types.ModuleType("distutils")
        sys.modules["distutils"].spawn = None  # type: ignore[attr-defined]
    select, sentinel = importlib.import_module(select_name), importlib.import_module(sentinel_name)
    for line in sys.stdin:
        question = json.loads(line)
        os.environ.update(question.pop("environ", {}))
        try:
            said: dict[str, object] = {"is": answer(question, select, sentinel)}
        except Exception as error:  # noqa: BLE001  theirs raise many kinds
            said = {"raised": type(error).__name__}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
