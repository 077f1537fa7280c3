"""The queries of one look, all evaluated at the same moment of Prometheus' clock."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from math import ceil
from urllib.parse import urlencode

from fallow.core.http import HttpAnswer
from fallow.core.ports import Clock
from fallow.core.unknown import Unknown
from fallow.readers.prometheus.answer import Vector, scalar, vector
from fallow.readers.prometheus.vocabulary import TARGET, Load, Vocabulary

Ask = Callable[[str, str, dict[str, str], float], HttpAnswer | Unknown]
"""Asks Prometheus: method, target, headers, and within how many seconds."""


class Queries:
    """Asks for everything of one look, within one limit of time for all of it."""

    def __init__(self, ask: Ask, clock: Clock, limit_s: float, exporters: Sequence[str] = ()) -> None:
        """`exporters`: shell patterns of the `job` labels whose series count; all if none is named."""
        self._ask = ask
        self._exporters = tuple(exporters)
        self._clock = clock
        self._until_s = clock.monotonic_s() + limit_s
        self._at_s = 0.0
        self._window = ""

    def begin(self) -> float | Unknown:
        """Ask Prometheus for its time, at which everything else is evaluated."""
        answer = self._answer({"query": "time()"})
        found = answer if isinstance(answer, Unknown) else scalar(answer)
        if not isinstance(found, Unknown):
            self._at_s = found
        return found

    def cover(self, seconds: float) -> None:
        """Say for how long before that moment the queries are."""
        self._window = f"{ceil(seconds * 1000)}ms"

    def __call__(self, query: str, words: Vocabulary | None = None) -> Vector | Unknown:
        """Return what a query finds; `{w}` and `{of}` in it are filled in. With `words` only exporters that count."""
        filled = query.format(w=self._window, of=", ".join(() if words is None else words.of))
        answer = self._answer({"query": filled, "time": f"{self._at_s:.3f}"})
        found = answer if isinstance(answer, Unknown) else vector(answer)
        if isinstance(found, Unknown) or words is None or not self._exporters:
            return found
        return [each for each in found if self._counts(each[0].get(TARGET[0], ""))]

    def _counts(self, job: str) -> bool:
        return any(fnmatchcase(job, pattern) for pattern in self._exporters)

    def _answer(self, form: dict[str, str]) -> HttpAnswer | Unknown:
        left_s = self._until_s - self._clock.monotonic_s()
        if left_s <= 0:
            return Unknown("Prometheus took too long for all queries of one look")
        return self._ask("GET", f"/api/v1/query?{urlencode(form)}", {}, left_s)


def is_there(words: Vocabulary) -> str:
    """Return the query that finds something if there is anything of this vocabulary."""
    return f"count({' or '.join(words.listed)})"


def scrapes(words: Vocabulary) -> str:
    """Return the query for how often each exporter was scraped: infinite or NaN if a scrape has failed."""
    target = ", ".join(TARGET)
    seen = " or ".join(f"count by ({target}) (count_over_time({metric}[{{w}}]))" for metric in words.listed)
    succeeded = "sum_over_time(up[{w}]) / (min_over_time(up[{w}]) >= bool 1)"
    return f"sum by ({target}) ({succeeded}) and on ({target}) ({seen})"


def listed(words: Vocabulary) -> str:
    """Return the query for when each GPU was last scraped, with what its labels say of it now.

    Infinite if there are two series for it that nothing of this tells apart.
    """
    by = ", ".join(("{of}", words.model, *(name for pair in words.pods for name in pair)))
    times = " or ".join(f"timestamp({metric})" for metric in words.listed)
    return f"max by ({by}) ({times}) / (count by ({by}) ({' or '.join(words.listed)}) <= bool 1)"


def highest(load: Load) -> str:
    """Return the query for the most that each GPU did."""
    return f"max by ({{of}}) (max_over_time({load.metric}[{{w}}]))"


def counted(load: Load) -> str:
    """Return the query for how many samples each GPU has: NaN if one is no number, infinite if one is negative."""
    metric = f"{load.metric}[{{w}}]"
    whole = f"count_over_time({metric}) + 0 * sum_over_time({metric})"
    return f"sum by ({{of}}) (({whole}) / (min_over_time({metric}) >= bool 0))"
