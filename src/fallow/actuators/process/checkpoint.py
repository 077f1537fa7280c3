"""Suspend a CUDA process: its work leaves the GPU, its memory goes to the host, and both come back later.

running -lock-> locked -checkpoint-> checkpointed -restore-> locked -unlock-> running

After `lock` the process sends the GPU no more work; after `checkpoint` it holds no GPU memory and NVML does not
list it. It may be killed in any of these states. Which process is suspended, and when it is too slow, is decided
elsewhere. The calls take as long as moving the memory takes (0.6 s a GiB), and other threads go on meanwhile.
"""

from typing import Any, Literal

from fallow.core.errors import FallowError
from fallow.core.missing import remedy

State = Literal["running", "locked", "checkpointed", "failed"]
_STATES: dict[int, State] = {0: "running", 1: "locked", 2: "checkpointed"}
_LOCK_WITHIN_MS = 2000
_NEEDS = 12080  # CUDA 12.8, which drivers support from 570 on
_OK = 0
_TIMED_OUT = "CUDA_ERROR_NOT_READY"
# A process that has not initialised CUDA, and one that does not exist.
_NO_SUCH = ("CUDA_ERROR_NOT_INITIALIZED", "CUDA_ERROR_OPERATING_SYSTEM", "CUDA_ERROR_INVALID_VALUE")


class CheckpointFailed(FallowError):
    """A step of suspending or resuming a process was refused, or went wrong."""


class Checkpoint:
    """The driver's way to suspend CUDA processes, where it has one."""

    def __init__(self) -> None:
        self._driver: Any = None
        self._why_not: str | None = None

    def why_not(self) -> str | None:
        """Return why no process can be suspended here; None if one can. The driver is opened at the first call."""
        if self._driver is None and self._why_not is None:
            self._why_not = self._open()
        return self._why_not

    def state(self, pid: int) -> State | None:
        """Return the state of the process; None if it is no CUDA process."""
        code, *number = self._opened().cuCheckpointProcessGetState(pid)
        if int(code) != _OK:
            if code.name in _NO_SUCH:
                return None
            raise CheckpointFailed(f"the driver does not report the state of pid {pid}: {code.name}")
        return _STATES.get(int(number[0]), "failed")

    def lock(self, pid: int) -> None:
        """Keep the process from sending work to the GPU; fail if it does not come to rest, and leave it running."""
        limits = self._opened().CUcheckpointLockArgs()
        limits.timeoutMs = _LOCK_WITHIN_MS
        self._do("Lock", "locked", pid, limits)

    def checkpoint(self, pid: int) -> None:
        """Move a locked process's memory from the GPU to the host."""
        self._do("Checkpoint", "checkpointed", pid)

    def restore(self, pid: int) -> None:
        """Move a checkpointed process's memory back; it stays locked. Fails if too little GPU memory is free."""
        self._do("Restore", "restored", pid)

    def unlock(self, pid: int) -> None:
        """Let a locked process go on."""
        self._do("Unlock", "unlocked", pid)

    def _do(self, step: str, done: str, pid: int, arguments: object = None) -> None:
        try:
            (code,) = getattr(self._opened(), f"cuCheckpointProcess{step}")(pid, arguments)
        except RuntimeError as error:  # a driver that lacks the call
            raise CheckpointFailed(f"the driver cannot suspend: {error}") from None
        if code.name == _TIMED_OUT:
            raise CheckpointFailed(f"pid {pid} did not come to rest in time, and goes on")
        if int(code) != _OK:
            raise CheckpointFailed(f"pid {pid} could not be {done}: {code.name}")

    def _open(self) -> str | None:
        try:
            from cuda.bindings import driver  # noqa: PLC0415  loaded only to suspend
        except ImportError:
            return f"suspending needs cuda-bindings; try: {remedy('cuda')}"
        try:
            # Restoring needs a process that has initialised CUDA, unless the GPU is in persistence mode.
            begun = driver.cuInit(0)[0]
            version = int(driver.cuDriverGetVersion()[1])
        except (RuntimeError, OSError):  # what cuda-bindings raises if the library is missing or too old
            return "there is no NVIDIA driver here that speaks CUDA"
        if int(begun) != _OK:
            return f"CUDA does not start: {begun.name}"
        if version < _NEEDS:
            spoken = f"{version // 1000}.{version % 1000 // 10}"
            return f"suspending needs a driver for CUDA 12.8 or newer (570); this one speaks {spoken}"
        self._driver = driver
        return None

    def _opened(self) -> Any:  # noqa: ANN401  the vendor's module
        why_not = self.why_not()
        if why_not is not None:
            raise CheckpointFailed(why_not)
        return self._driver
