"""Fillers in driven time: they take their time to leave, and die when the test says so."""

from fallow.core.fillers import Presence
from fallow.core.gpu import Gpu
from fallow.engine.fill.filler import DryRunFiller, FillerSpec
from tests.harness import ManualClock


class DrivenFiller(DryRunFiller):
    """Leaves so long after it was asked."""

    def __init__(self, clock: ManualClock, leaves_in_s: float) -> None:
        super().__init__()
        self._clock = clock
        self._leaves_in_s = leaves_in_s
        self._gone_at_s: float | None = None

    def ask(self) -> None:
        if self._gone_at_s is None:
            self._gone_at_s = self._clock.now_s + self._leaves_in_s

    def listen(self) -> None:
        if self._gone_at_s is not None and self._clock.now_s >= self._gone_at_s:
            self.presence = Presence.ABSENT

    def die(self) -> None:
        """By itself."""
        self.presence = Presence.ABSENT
        self.ended = "ended with exit code 1"


class DrivenFillerStarter:
    """Starts such fillers, and keeps them all."""

    def __init__(self, clock: ManualClock, leaves_in_s: float = 0.0) -> None:
        self.leaves_in_s = leaves_in_s
        self.started: list[tuple[FillerSpec, tuple[Gpu, ...], DrivenFiller]] = []
        self._clock = clock

    def start(self, spec: FillerSpec, gpus: tuple[Gpu, ...]) -> DrivenFiller:
        filler = DrivenFiller(self._clock, self.leaves_in_s)
        self.started.append((spec, gpus, filler))
        return filler
