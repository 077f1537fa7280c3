"""The process that loads one GPU: `python -m fallow.engine.burn.worker PLAN`. `fallow burn` starts one for each.

It writes reports as lines of JSON to stdout, the last one at its end. SIGTERM and Ctrl-C ask it to leave; they are
blocked until it can handle them. One thread does nothing but wait for them, so that it reacts within a millisecond,
whatever the other thread does. The first thing that it does then is to free the memory. As a filler it stays for a
moment afterwards, unless SIGHUP says that a launch waits for its end: a newcomer that creates its context waits for
the driver while another context is torn down.
"""

import json
import os
import select
import signal
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fallow.actuators.process.signals import die_with_parent
from fallow.core.errors import CardFailed, FallowError
from fallow.core.value import fields
from fallow.engine.machine.clock import SystemClock
from fallow.engine.machine.signal_pipe import LEAVING, SignalPipe
from fallow.workloads.work import Ask, Load, MemoryFreed, Tally

if TYPE_CHECKING:
    from fallow.workloads.loads import CudaWork
    from fallow.workloads.simulated import SimulatedWork

LEAVE, LEAVE_AT_ONCE = signal.SIGTERM, signal.SIGHUP
_REPORT_EVERY_S = 0.5
_STAYS_S = 1.0  # after freeing its memory; by then a newcomer has its context and its memory
_LAST_STEP_S = 5.0  # no kernel takes so long, unless the GPU has failed


class Burner:
    """Runs one load until it is asked to leave or fails."""

    def __init__(self, work: "CudaWork | SimulatedWork") -> None:
        self._work = work
        self._clock = SystemClock()
        self._signals = SignalPipe()
        self._ended, self._end = os.pipe()
        self._leaving = False
        self._began_s: float | None = None
        self._took_s = 0.0
        self._tally = Tally()
        self._failure: FallowError | None = None

    def run(self, *, stays: bool) -> int:
        """Load the GPU; return the exit code. `stays`: it stays for a moment after it was asked to leave."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, LEAVING)
        worker = threading.Thread(target=self._load, daemon=True)
        worker.start()
        is_asked = self._signals.fd in select.select([self._signals.fd, self._ended], [], [])[0]
        self._leaving = True
        freed_in_s = self._free_memory()
        worker.join(_LAST_STEP_S)
        self._last_tally(alive=worker.is_alive())
        failure = self._failure
        report = {"freed_in_s": freed_in_s, "failed": None if failure is None else str(failure)}
        self._report(**report, code=0 if failure is None else failure.exit_code)
        if stays and is_asked:
            self._stay()
        if failure is not None:
            return failure.exit_code
        return CardFailed.exit_code if self._tally.wrong_words else 0

    def _load(self) -> None:
        """Run the load, in the second thread."""
        try:
            self._work.begin(self._about_to_allocate)
            self._began_s = reported_s = self._clock.monotonic_s()
            self._tally = self._work.tally()
            self._report()
            while not self._leaving:
                self._work.step()
                now_s = self._clock.monotonic_s()
                self._took_s = now_s - self._began_s
                if now_s - reported_s >= _REPORT_EVERY_S and not self._leaving:
                    reported_s = now_s
                    self._tally = self._work.tally()
                    self._report()
        except MemoryFreed:
            pass
        except FallowError as error:
            self._failure = error
        except Exception as error:  # noqa: BLE001  whatever the error, the parent waits for a report
            self._failure = FallowError(f"internal error: {type(error).__name__}: {error}")
        finally:
            os.close(self._end)

    def _about_to_allocate(self, wanted_bytes: int) -> None:
        self._tally = Tally(wanted_bytes=wanted_bytes)
        self._report()

    def _free_memory(self) -> float:
        before_s = self._clock.monotonic_s()
        try:
            self._work.free()
        except FallowError as error:  # a GPU that has failed does not free memory either
            self._failure = self._failure or error
        return self._clock.monotonic_s() - before_s

    def _stay(self) -> None:
        """Stay for a moment, because destroying our context now would delay the newcomer."""
        until_s = self._clock.monotonic_s() + _STAYS_S
        while LEAVE_AT_ONCE not in self._signals.numbers():
            left_s = until_s - self._clock.monotonic_s()
            if left_s <= 0:
                return
            select.select([self._signals.fd], [], [], left_s)

    def _last_tally(self, *, alive: bool) -> None:
        """Count the work for the last time, and fail if the load does not end."""
        if alive and self._failure is None:
            self._failure = CardFailed("it does not come to the end of its work")
        if self._failure is None and self._began_s is not None:
            with suppress(FallowError):
                self._tally = self._work.tally()

    def _report(self, **more: Any) -> None:  # noqa: ANN401  whatever JSON can say
        tally = {name: getattr(self._tally, name) for name in fields(Tally)}
        report = {"seconds": self._took_s, **tally}
        with suppress(OSError):  # the parent is gone
            os.write(1, json.dumps(report | more).encode() + b"\n")


def main() -> int:
    """Load the GPU that CUDA_VISIBLE_DEVICES names, as the plan on the command line says."""
    plan = json.loads(sys.argv[1])
    die_with_parent(plan["parent"])
    ask = Ask(**plan["ask"] | {"load": Load(plan["ask"]["load"])})
    return Burner(_work(ask, plan["simulated_bytes"])).run(stays=plan["stays"])


def _work(ask: Ask, simulated_bytes: int | None) -> "CudaWork | SimulatedWork":
    if simulated_bytes is None:
        from fallow.workloads import loads

        return loads.CudaWork(ask)
    from fallow.workloads import simulated

    return simulated.SimulatedWork(ask, simulated_bytes)


if __name__ == "__main__":
    code = main()
    # A normal exit would wait for a thread that hangs in the driver, and for the driver's own cleanup.
    os._exit(code)
