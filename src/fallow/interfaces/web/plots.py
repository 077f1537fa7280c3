"""Read what the plots show, beside the event loop, and keep it for a while: a step of 10 minutes changes slowly.

At most 64 answers are kept, however many users and jobs there are to be asked for.

The first read of a month of 64 GPUs takes some tenths of a second. So as soon as somebody looks at the page, all
spans of all GPUs are read ahead, one after the other, and a click finds them.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from fallow.core.board import Board
from fallow.core.errors import FallowError
from fallow.core.gpu_status import GpuStatus
from fallow.core.interval import Party
from fallow.core.money import Prices
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.daemon.sources import Sources
from fallow.engine.history.series import SPANS, PlotSpan, Step, steps_of
from fallow.engine.machine.local_zone import LocalZone
from fallow.interfaces.render import plots
from fallow.interfaces.render.plots import SPAN_WORDS, Scale
from fallow.interfaces.web.view_models import View

DEFAULT_SPAN = "24h"
_CHIPS = {"1h": "1 h", "24h": "24 h", "7d": "7 d", "30d": "30 d"}
_LASTS_S = {"1h": 15.0, "24h": 60.0, "7d": 300.0, "30d": 300.0}
_MOST_KEPT = 64
_WHOLE_GPU = "Utilization, memory, power and temperature are those of a GPU with all jobs on it."


@value
class Plotted:
    """What is plotted: some GPUs, or all that a user or a job held."""

    uuids: tuple[str, ...] | None
    """None for every GPU that history knows."""
    user: str | None = None
    job: str | None = None
    """As history names it: the owner, or the command."""

    def matches(self, party: Party) -> bool:
        """Return whether a party is the one that is asked for."""
        return self.user in (None, party.user) and self.job in (None, party.job)

    @property
    def is_of_somebody(self) -> bool:
        """Return whether only time of a user or a job counts."""
        return self.user is not None or self.job is not None


@value
class _Kept:
    """Steps that were read, and when."""

    made_s: float
    steps: tuple[Step, ...]


class PlotReads:
    """Reads the steps of plots. Call all methods in the event loop of the page."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._kept: dict[tuple[Plotted, str], _Kept] = {}
        self._drawn: dict[tuple[Plotted, str], tuple[object, tuple[plots.Plot, ...]]] = {}
        self._ahead: asyncio.Task[None] | None = None

    def read_ahead(self, what: Plotted) -> None:
        """Begin to read the spans that were not read yet; what cannot be read now is read when it is asked for."""
        is_read = all((what, name) in self._kept for name in SPANS)
        if not is_read and (self._ahead is None or self._ahead.done()):
            self._ahead = asyncio.get_running_loop().create_task(self._read_all(what))

    async def _read_all(self, what: Plotted) -> None:
        for span in SPANS.values():
            if (what, span.name) not in self._kept:
                with suppress(FallowError):
                    await self.steps(what, span)

    async def steps(self, what: Plotted, span: PlotSpan) -> tuple[Step, ...]:
        """Return the steps; raise FallowError if they cannot be read now."""
        now_s, key = self._sources.clock.monotonic_s(), (what, span.name)
        board, kept = self._sources.board(), self._kept.get(key)
        prices = Prices() if board is None else board.prices
        if kept is not None and 0 <= now_s - kept.made_s < _LASTS_S[span.name]:
            return kept.steps
        found = await asyncio.to_thread(self._read, what, span, prices)
        self._kept.pop(key, None)
        self._kept[key] = _Kept(now_s, found)
        while len(self._kept) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return found

    async def view(self, what: Plotted, span_name: str, address: str, title: str) -> View:
        """Return what the template of the plots shows; `address` is that of the page, to which a span is added."""
        span, board = SPANS.get(span_name, SPANS[DEFAULT_SPAN]), self._sources.board()
        sentence, steps = "", ()  # type: tuple[str, tuple[Step, ...]]
        try:
            steps = await self.steps(what, span)
        except FallowError as error:
            sentence = str(error)
        if not sentence and not any(one.spent_ms or one.utilization is not None for one in steps):
            steps, sentence = (), "Nothing was recorded in that time."
        most = max((one.gpus for one in steps), default=0)
        if most > 1:
            which = f"up to {most} GPUs that were held" if what.is_of_somebody else f"{most} GPUs"
            sentence = f"Each value is the mean of {which}."
        if steps and what.is_of_somebody:
            sentence = f"{sentence} {_WHOLE_GPU}".strip()
        if steps:
            sentence = f"{sentence} {_as_of(steps)}".strip()
        return {
            "title": title,
            "span": span.name,
            "span_words": SPAN_WORDS[span.name],
            "spans": tuple(_CHIPS.items()),
            "address": f"{address}{'&' if '?' in address else '?'}span=",
            "gpus": (),
            "sentence": sentence,
            "drawn": self._draw(steps, span, board, what),
        }

    def _draw(
        self, steps: tuple[Step, ...], span: PlotSpan, board: Board | None, what: Plotted
    ) -> tuple[plots.Plot, ...]:
        """Return the plots of these steps, their axes as far as the GPUs go; drawn once for all who look."""
        prices = Prices() if board is None else board.prices
        scale = _scale([] if board is None else [gpu for gpu in board.status.gpus if _is_of(gpu, what)])
        key, made_of = (what, span.name), (id(steps), prices, scale)
        kept = self._drawn.get(key)
        if kept is None or kept[0] != made_of:
            self._drawn = {key: kept for key, kept in self._drawn.items() if key in self._kept}
            kept = self._drawn[key] = made_of, plots.plots(steps, span, LocalZone(), prices, scale)
        return kept[1]

    def _read(self, what: Plotted, span: PlotSpan, prices: Prices) -> tuple[Step, ...]:
        """Read the steps: in a thread."""
        past = self._sources.past()
        try:
            return steps_of(
                past,
                past.cards() if what.uuids is None else what.uuids,
                round(self._sources.clock.wall_s() * 1000),
                span,
                prices,
                what.matches if what.is_of_somebody else None,
            )
        finally:
            past.close()


def _as_of(steps: Sequence[Step]) -> str:
    """Return from when to when the steps are: they are kept for a while, and the first begins where a step does."""
    zone = LocalZone()
    begin, end = (
        datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone) for at_ms in (steps[0].begin_ms, steps[-1].end_ms)
    )
    return f"As of {end:%H:%M:%S}, from {begin.day} {begin:%b}, {begin:%H:%M} on."


def _is_of(gpu: GpuStatus, what: Plotted) -> bool:
    return what.uuids is None or gpu.uuid in what.uuids


def _scale(gpus: Sequence[GpuStatus]) -> Scale:
    """Return how far the axes go: to the memory and the power limit of the largest GPU."""
    memory = [gpu.memory.total_bytes for gpu in gpus if not isinstance(gpu.memory, Unknown)]
    power = [gpu.power_limit_w for gpu in gpus if not isinstance(gpu.power_limit_w, Unknown)]
    return Scale(max(memory, default=None), max(power, default=None))
