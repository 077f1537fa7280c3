"""The queries of one look, all evaluated at the same moment of Prometheus' clock."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from math import ceil
from urllib.parse import urlencode

from fallow.core.http import HttpAnswer
from fallow.core.ports import Clock
from fallow.core.unknown import Unknown
from fallow.readers.prometheus.answer import LabelReader, Vector, scalar, vector
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
        self._labels: dict[tuple[str, ...], LabelReader] = {}

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

    def __call__(self, query: str, names: tuple[str, ...] = ()) -> Vector | Unknown:
        """Return what a query finds, by the labels of these names: they are `{of}` in it, and the time is `{w}`.

        With names only exporters that count.
        """
        filled = query.format(w=self._window, of=", ".join(names))
        answer = self._answer({"query": filled, "time": f"{self._at_s:.3f}"})
        found = answer if isinstance(answer, Unknown) else vector(answer, self._labels_of(names))
        if isinstance(found, Unknown) or not names or not self._exporters:
            return found
        at = names.index(TARGET[0])
        jobs = {job for job in {key[at] for key in found} if self._counts(job)}
        return {key: number for key, number in found.items() if key[at] in jobs}

    def _counts(self, job: str) -> bool:
        return any(fnmatchcase(job, pattern) for pattern in self._exporters)

    def _labels_of(self, names: tuple[str, ...]) -> LabelReader:
        if names not in self._labels:
            self._labels[names] = LabelReader(names)
        return self._labels[names]

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
    seen = " or ".join(f"count by ({{of}}) (count_over_time({metric}[{{w}}]))" for metric in words.listed)
    succeeded = "sum_over_time(up[{w}]) / (min_over_time(up[{w}]) >= bool 1)"
    return f"sum by ({{of}}) ({succeeded}) and on ({{of}}) ({seen})"


def listed(words: Vocabulary) -> str:
    """Return the query for when each GPU was last scraped, with what its labels say of it now.

    Infinite if there are two series for it that nothing of this tells apart.
    """
    times = " or ".join(f"timestamp({metric})" for metric in words.listed)
    return f"max by ({{of}}) ({times}) / (count by ({{of}}) ({' or '.join(words.listed)}) <= bool 1)"


def highest(load: Load) -> str:
    """Return the query for the most that each GPU did."""
    return f"max by ({{of}}) (max_over_time({load.metric}[{{w}}]))"


def counted(load: Load) -> str:
    """Return the query for how many samples each GPU has: NaN if one is no number, infinite if one is negative."""
    metric = f"{load.metric}[{{w}}]"
    whole = f"count_over_time({metric}) + 0 * sum_over_time({metric})"
    return f"sum by ({{of}}) (({whole}) / (min_over_time({metric}) >= bool 0))"
