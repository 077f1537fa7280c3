"""Read what all GPUs of a cluster did since the last look, in a few queries to its Prometheus."""

from collections.abc import Sequence
from enum import StrEnum

from fallow.core.cluster import Readings
from fallow.core.ports import Clock
from fallow.core.unknown import Unknown
from fallow.readers.http import RemoteHttp
from fallow.readers.prometheus import queries
from fallow.readers.prometheus.answer import Vector
from fallow.readers.prometheus.merge import merged
from fallow.readers.prometheus.queries import Ask, Queries
from fallow.readers.prometheus.series import Answers, Seen, Window, seen
from fallow.readers.prometheus.vocabulary import DCGM, HOSTS, OWN, OWNER, TARGET, Vocabulary

MOST_BYTES = 64 << 20
"""The longest answer that is read: 20,000 GPUs take about 8 MB."""
_FIRST_COVERS_S = 60.0
_MOST_COVERED_S = 600.0


class Source(StrEnum):
    """Whose metrics are read."""

    AUTO = "auto"
    FALLOW = "fallow"
    DCGM = "dcgm"


_WORDS = {Source.AUTO: (OWN, DCGM), Source.FALLOW: (OWN,), Source.DCGM: (DCGM,)}


def open_eyes(
    clock: Clock,
    url: str,
    source: Source = Source.AUTO,
    scrape_interval_s: float = 60.0,
    token_file: str = "",
    limit_s: float = 30.0,
    exporters: Sequence[str] = (),
) -> "PrometheusEyes":
    """Return the eyes on the Prometheus at an address; raise ValueError if it is not one of http or https."""
    ask = RemoteHttp(clock, url, token_file, MOST_BYTES)
    return PrometheusEyes(clock, ask, source, scrape_interval_s, limit_s, exporters)


class PrometheusEyes:
    """Reads all GPUs of a cluster. It is used by one thread."""

    def __init__(
        self,
        clock: Clock,
        ask: Ask,
        source: Source = Source.AUTO,
        scrape_interval_s: float = 60.0,
        limit_s: float = 30.0,
        exporters: Sequence[str] = (),
    ) -> None:
        """`scrape_interval_s` is the longest time between two scrapes of an exporter; a longer one is a gap.

        `exporters`: shell patterns of the `job` labels whose series count; all if none is named.
        """
        self._clock = clock
        self._ask = ask
        self._source = source
        self._interval_s = max(0.1, scrape_interval_s)
        self._limit_s = limit_s
        self._exporters = exporters
        self._last_s: float | None = None
        """When the last look began that found everything."""

    def read(self) -> Readings:
        """Return what they did since the last call; the first one covers a minute at most.

        What a call could not read is covered by the next one, for some minutes.
        """
        began_s = self._clock.monotonic_s()
        ask = Queries(self._ask, self._clock, self._limit_s, self._exporters)
        now = ask.begin()
        at_s = self._clock.monotonic_s()
        if isinstance(now, Unknown):
            return Readings(at_s=at_s, covers_s=0.0, trouble=now)
        window = Window(now, self._covers_s(at_s), self._interval_s)
        ask.cover(window.covers_s)
        found = self._looked(ask, window)
        if isinstance(found, Unknown):
            return Readings(at_s=at_s, covers_s=0.0, trouble=found)
        self._last_s = began_s
        return Readings(at_s=at_s, covers_s=window.covers_s, gpus=merged(found))

    def _covers_s(self, at_s: float) -> float:
        if self._last_s is None:
            since_s = min(2 * self._interval_s, _FIRST_COVERS_S)
        else:
            since_s = min(at_s - self._last_s, _MOST_COVERED_S)
        # A window of one interval can fall between two scrapes.
        return max(since_s, 1.5 * self._interval_s)

    def _looked(self, ask: Queries, window: Window) -> list[Seen] | Unknown:
        """Return what each exporter says of each GPU, or why it cannot be said of all."""
        made: list[Seen] = []
        there = False
        for words in _WORDS[self._source]:
            some = ask(queries.is_there(words))
            if isinstance(some, Unknown):
                return some
            if not some:
                continue
            there = True
            answers = _answers(ask, words)
            if isinstance(answers, Unknown):
                return answers
            made += seen(words, answers, window)
        if not there:
            return Unknown(f"Prometheus has no GPU metrics of {self._wanted()}")
        if self._exporters and not made:
            return Unknown("Prometheus has no GPU metrics with a job label that exporters = under [cluster] names")
        return made

    def _wanted(self) -> str:
        return " or ".join(words.name for words in _WORDS[self._source])


def _answers(ask: Queries, words: Vocabulary) -> Answers | Unknown:
    """Ask everything in one vocabulary. How often exporters were scraped is asked first: no sample is newer then."""
    of = words.of
    scrapes = ask(queries.scrapes(words), TARGET)
    if isinstance(scrapes, Unknown):
        return scrapes
    loads = []
    for load in words.loads:
        highest, count = ask(queries.highest(load), of), ask(queries.counted(load), of)
        if isinstance(highest, Unknown):
            return highest
        if isinstance(count, Unknown):
            return count
        loads.append((load, highest, count))
    others: list[Vector] = []
    for query, names in (
        (queries.listed(words), words.of_listed),
        (words.host_query, HOSTS),
        (words.age_query, TARGET),
        (words.busy_query, of),
        (words.pod_query, (*of, OWNER)),
    ):
        found = ask(query, names) if query else {}
        if isinstance(found, Unknown):
            return found
        others.append(found)
    listed, hosts, ages, busy, pods = others
    figures = {name: ask(figure.query, of) for name, figure in words.figures.items()}
    return Answers(listed, scrapes, tuple(loads), figures, hosts, ages, busy, pods)
