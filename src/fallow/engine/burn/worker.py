"""The process that loads one GPU: `python -m fallow.engine.burn.worker PLAN`. `fallow burn` starts one for each.

It writes a line of JSON on stdout now and then, and one at the end. Descriptor 3 is its line to who started it: a
byte asks it to leave, its end says that they died, and then it ends at once. SIGTERM and Ctrl-C ask it to leave as
well, without a detour; they are kept back until it can hear them. The thread that waits for all these does nothing
else, so that being asked is heard within a millisecond, whatever the other does; and the first deed then is to give
the memory back.
"""

import json
import os
import select
import signal
import sys
import threading
from contextlib import suppress
from typing import Any

from fallow.core.errors import CardFailed, FallowError
from fallow.core.ports import Clock
from fallow.engine.machine.clock import SystemClock
from fallow.engine.machine.signal_pipe import LEAVING, SignalPipe
from fallow.workloads.work import (
    Ask,
    LetGo,
    Load,
    Tally,
    Work,
)

LINE = 3
SEND_AWAY = b"!"  # on the line; any other byte asks it to leave
_TELL_EVERY_S = 0.5
_STAYS_AT_MOST_S = 12.0  # without its memory, until it is sent away
_LAST_STEP_S = 5.0  # nothing that is sent to a card takes so long, unless the card has failed


class Burner:
    """One load, from its beginning until it is asked to leave, has done its time, or fails."""

    def __init__(self, work: Work, for_s: float | None, clock: Clock, *, stays: bool) -> None:
        """`stays`: without its memory, until whoever started it sends it away."""
        self._work = work
        self._stays = stays
        self._for_s = for_s
        self._clock = clock
        self._ended, self._end = os.pipe()
        self._leaving = False
        self._began_s: float | None = None
        self._took_s = 0.0
        self._tally = Tally()
        self._failure: FallowError | None = None

    def run(self) -> int:
        """Load the card; the exit code."""
        asked = SignalPipe()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, LEAVING)
        worker = threading.Thread(target=self._load, daemon=True)
        worker.start()
        poll = select.poll()
        for fd in (asked.fd, LINE, self._ended):
            poll.register(fd, select.POLLIN)
        first = poll.poll()[0][0]
        if first == LINE and not os.read(LINE, 1):
            return FallowError.exit_code  # nobody is left to report to; the kernel frees all
        self._leaving = True
        freed_in_s = self._let_go()
        worker.join(_LAST_STEP_S)
        self._last_tally(alive=worker.is_alive())
        failure = self._failure
        told = {"freed_in_s": freed_in_s, "failed": None if failure is None else str(failure)}
        self._tell(**told, code=0 if failure is None else failure.exit_code)
        if self._stays:
            self._wait_to_be_sent_away()
        if failure is not None:
            return failure.exit_code
        return CardFailed.exit_code if self._tally.wrong_words else 0

    def _load(self) -> None:
        """What the other thread does."""
        try:
            self._work.begin(self._about_to_take)
            self._began_s = told_s = self._clock.monotonic_s()
            self._tally = self._work.tally()
            self._tell()
            while not self._leaving:
                self._work.step()
                now_s = self._clock.monotonic_s()
                self._took_s = now_s - self._began_s
                if self._for_s is not None and self._took_s >= self._for_s:
                    break
                if now_s - told_s >= _TELL_EVERY_S and not self._leaving:
                    told_s = now_s
                    self._tally = self._work.tally()
                    self._tell()
        except LetGo:
            pass
        except FallowError as error:
            self._failure = error
        except Exception as error:  # noqa: BLE001  whatever it is, somebody waits for the sentence
            self._failure = FallowError(f"internal error: {type(error).__name__}: {error}")
        finally:
            os.close(self._end)

    def _about_to_take(self, wanted_bytes: int) -> None:
        self._tally = Tally(wanted_bytes=wanted_bytes)
        self._tell()

    def _let_go(self) -> float:
        before_s = self._clock.monotonic_s()
        try:
            self._work.let_go()
        except FallowError as error:  # a card that has failed takes nothing back either
            self._failure = self._failure or error
        return self._clock.monotonic_s() - before_s

    def _wait_to_be_sent_away(self) -> None:
        """A context that is torn down now would keep the newcomer waiting."""
        poll = select.poll()
        poll.register(LINE, select.POLLIN)
        until_s = self._clock.monotonic_s() + _STAYS_AT_MOST_S
        while poll.poll(max(0.0, until_s - self._clock.monotonic_s()) * 1000):
            said = os.read(LINE, 64)
            if not said or SEND_AWAY in said:
                return

    def _last_tally(self, *, alive: bool) -> None:
        """What was counted in the end; what the card held, it holds no more."""
        if alive and self._failure is None:
            self._failure = CardFailed("it does not come to the end of its work")
        if self._failure is None and self._began_s is not None:
            with suppress(FallowError):
                self._tally = self._work.tally()

    def _tell(self, **more: Any) -> None:  # noqa: ANN401  whatever JSON can say
        tally = self._tally
        told = {
            "seconds": self._took_s,
            "wanted_bytes": tally.wanted_bytes,
            "held_bytes": tally.held_bytes,
            "chunks": tally.chunks,
            "flop": tally.flop,
            "moved_bytes": tally.moved_bytes,
            "checked_bytes": tally.checked_bytes,
            "wrong_words": tally.wrong_words,
        }
        with suppress(OSError):  # who listened is gone, which the line tells us
            os.write(1, json.dumps(told | more).encode() + b"\n")


def main() -> int:
    """Load the card that CUDA_VISIBLE_DEVICES names, as the plan on the command line says."""
    plan = json.loads(sys.argv[1])
    ask = Ask(Load(plan["load"]), plan["verify"], plan["memory_share"], plan["memory_bytes"], plan["chunk_bytes"])
    work: Work
    if plan["simulated_bytes"] is not None:
        from fallow.workloads.simulated import SimulatedWork

        work = SimulatedWork(ask, plan["simulated_bytes"])
    else:
        from fallow.workloads.loads import CudaWork

        work = CudaWork(ask)
    return Burner(work, plan["for_s"], SystemClock(), stays=plan["stays"]).run()


if __name__ == "__main__":
    code = main()
    # A thread that hangs in the driver, and what the driver does at a normal exit, must not keep us.
    os._exit(code)
