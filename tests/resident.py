"""fallow's command line in a process that stays, for tests that run it a thousand times.

Each line on stdin is a JSON list of words; each answer is a line with the exit code and what was printed. It is the
whole verb, without the start of an interpreter.
"""

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Mapping

from fallow.interfaces.cli.main import main
from tests.places import LIMIT_S


class Resident:
    """The process, seen from the test."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.resident"],
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of one verb."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        code, out, err = json.loads(self._process.stdout.readline())
        return code, out, err

    def leave(self) -> int:
        """Tell it to end; it must, whatever hangs in the driver."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                return self._process.wait(LIMIT_S)
            finally:
                self._process.kill()


def serve() -> None:
    """Answer until stdin ends."""
    answers = sys.stdout
    for line in sys.stdin:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(json.loads(line))
        print(json.dumps([code, out.getvalue(), err.getvalue()]), file=answers, flush=True)


if __name__ == "__main__":
    serve()
