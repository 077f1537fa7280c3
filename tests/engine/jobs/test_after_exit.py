"""What follows after a job is called off, and everybody is told so, at whatever moment fallow is ended."""

import pathlib
from collections.abc import Callable, Iterator

import pytest

from fallow.actuators.host.hooks import SystemHooks
from fallow.actuators.host.power import SystemPower
from fallow.actuators.process.helpers import Helpers
from fallow.core.actions import PowerOff
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.jobs.after_exit import AfterExit, Then
from fallow.engine.jobs.perform import HostActuators
from fallow.engine.machine.clock import SystemClock
from fallow.engine.machine.world import World
from tests.conftest import Fallow
from tests.engine.driven import DrivenClock
from tests.reasons import said


class Ended(BaseException):
    """As a signal that ends fallow unwinds."""


class EndedAfter:
    """Somebody who listens, and ends fallow as soon as it has said this."""

    def __init__(self, words: str) -> None:
        self._words = words

    def __call__(self, sentence: str) -> None:
        if self._words in sentence:
            raise Ended


class ClockEndedAfter(DrivenClock):
    """Driven time in which fallow is ended so many seconds after the start."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._until_s = self.now_s + seconds

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.now_s >= self._until_s:
            raise Ended


class Afterwards:
    """The end of a job in driven time, with real hands; wall and systemctl are stand-ins that take notes."""

    def __init__(self, folder: pathlib.Path, clock: DrivenClock, tell: EndedAfter) -> None:
        self.log = folder / "log"
        self.log.touch()
        (folder / "bin").mkdir()
        for name in ("systemctl", "wall"):
            program = folder / "bin" / name
            program.write_text(f'#!/bin/sh\necho "{name} $*$(cat)" >> {self.log}\n')
            program.chmod(0o755)
        environ = {**Fallow(folder).environ, "PATH": f"{folder / 'bin'}:/usr/bin:/bin"}
        self.world = World(environ, clock=clock)
        self.journal = Journal(str(folder / "journal"), clock.wall_s, lambda _: None)
        helpers = Helpers(SystemClock().monotonic_s)
        actuators = HostActuators(SystemPower(helpers, environ), SystemHooks(helpers, environ), helpers)
        self._follower = AfterExit(Run(self.world, self.journal, Report(tell)), actuators)

    def shut_down(self) -> list[str]:
        """What was done, in order, until fallow was ended."""
        with pytest.raises(Ended):
            self._follower.follow((Then(PowerOff()),), said("the job was stopped"), stopped=True, keys=[])
        return self.log.read_text().splitlines()

    def close(self) -> None:
        self.journal.close()
        self.world.close()


CALLED_OFF = "wall fallow: called off: fallow was ended"
MOMENTS: dict[str, tuple[Callable[[], DrivenClock], str]] = {
    "terminals were told": (DrivenClock, "announced to all terminals"),
    "it has said so itself": (DrivenClock, "about to turn the machine off"),
    "counting has begun": (lambda: ClockEndedAfter(1.0), "never said"),
    "almost all is counted": (lambda: ClockEndedAfter(59.0), "never said"),
}


@pytest.fixture(params=MOMENTS)
def afterwards(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Afterwards]:
    clock, words = MOMENTS[request.param]
    made = Afterwards(tmp_path, clock(), EndedAfter(words))
    yield made
    made.close()


def test_whoever_was_told_of_a_shutdown_is_told_that_it_is_called_off_whenever_fallow_is_ended(
    afterwards: Afterwards,
) -> None:
    done = afterwards.shut_down()
    assert done[0].startswith("wall fallow: about to turn the machine off in 1m")
    assert done[1:] == [CALLED_OFF]
