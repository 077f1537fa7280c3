"""A stage for real processes: what they say comes line by line, and nothing outlives the scene."""

import os
import pathlib
import select
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from tests.places import LIMIT_S

HERE = pathlib.Path(__file__).parent


def job(name: str, *words: str) -> list[str]:
    """The command of one of the jobs. -S: they need nothing but the standard library."""
    return [sys.executable, "-S", "-E", str(HERE / "jobs.py"), name, *words]


class Scene:
    """One wrapper and its job."""

    def __init__(self, wrapper: "subprocess.Popen[bytes]", report: int, control: int) -> None:
        self.wrapper = wrapper
        self._report = report
        self._control = control
        self._heard = b""

    def line(self) -> str | None:
        """The next line that anybody on the stage says; None when the last of them is gone."""
        while b"\n" not in self._heard:
            if not select.select([self._report], [], [], LIMIT_S)[0]:
                raise AssertionError(f"nobody has said anything for {LIMIT_S} s, and somebody is still there")
            said = os.read(self._report, 4096)
            if not said:
                return None
            self._heard += said
        line, self._heard = self._heard.split(b"\n", 1)
        return line.decode()

    def rest(self) -> list[str]:
        """All that is said until the last is gone."""
        return list(iter(self.line, None))

    def tell(self, line: str) -> None:
        """Say a line to the wrapper."""
        os.write(self._control, f"{line}\n".encode())

    def code(self) -> int:
        """How the wrapper ended, as Popen has it: minus the signal."""
        return self.wrapper.wait(LIMIT_S)


@contextmanager
def play(
    command: list[str],
    *,
    descriptors: tuple[int, ...] = (),
    before: Callable[[], None] | None = None,
    environ: Mapping[str, str] | None = None,
    session: bool = True,
) -> Iterator[Scene]:
    """Start a command that knows REPORT_FD and CONTROL_FD; at the end kill whatever is left of it."""
    mark = f"FALLOW_TEST={uuid.uuid4()}"
    report, theirs = os.pipe()
    control_theirs, control = os.pipe()
    variables = {**os.environ, **(environ or {}), "REPORT_FD": str(theirs), "CONTROL_FD": str(control_theirs)}
    variables.update([mark.split("=")])
    wrapper = subprocess.Popen(
        command,
        env=variables,
        pass_fds=(theirs, control_theirs, *descriptors),
        stdin=subprocess.DEVNULL,
        start_new_session=session,
        preexec_fn=before,  # noqa: PLW1509  no test has a thread when it starts a scene
    )
    os.close(theirs)
    os.close(control_theirs)
    try:
        yield Scene(wrapper, report, control)
    finally:
        os.close(control)
        sweep(mark)
        wrapper.wait(LIMIT_S)
        os.close(report)


def wrapped(mode: str, command: list[str]) -> list[str]:
    """The command of the wrapper around a job."""
    return [sys.executable, str(HERE / "wrapper.py"), mode, *command]


def sweep(mark: str) -> None:
    """Kill all that carry the mark, until there are none."""
    while found := [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _carries(pid, mark)]:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _carries(pid: int, mark: str) -> bool:
    try:
        return mark.encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
