"""Turn statuses into intervals and samples, in memory.

A tick covers the time since the one before it, as everywhere in fallow. An interval goes on while the activity
and the holders stay the same; it ends when they change, when a gap is too long to be witnessed, and at each quarter
of an hour, so that every interval lies in one quarter and thereby on one local day in any time zone.
"""

import json
from collections import deque
from typing import NamedTuple

from fallow.core.activity import AVAILABLE, Activity
from fallow.core.gpu_status import GpuStatus, Status, people_on
from fallow.core.interval import (
    MANY_JOBS,
    NOBODY,
    SOMEBODY,
    Card,
    Party,
    in_order,
    parties_of,
)
from fallow.core.units import printable
from fallow.core.unknown import Unknown
from fallow.engine.history.samples import SampleCollector, Sums

QUARTER_MS = 900_000
_MOST_WAITING = 20_000
_MOST_HOLDERS = 16


class Piece(NamedTuple):
    """An interval to be written; a later one with the same number is the same interval, longer."""

    number: int
    uuid: str
    begin_ms: int
    end_ms: int
    activity: Activity
    crew: str
    energy_mj: int = 0
    metered_ms: int = 0
    """For how long of it the power was known."""


class Batch(NamedTuple):
    """What has been seen since the last batch."""

    now_ms: int
    cards: dict[str, Card]
    pieces: list[Piece]
    samples: Sums
    lost_ms: tuple[int, int] | None = None
    """Between which times there were pieces that did not wait until now, because they were too many."""


class Collector:
    """Collects what is not written yet. It drops the oldest before it grows too large."""

    def __init__(self, longest_gap_s: float, most_waiting: int = _MOST_WAITING) -> None:
        self.change(longest_gap_s)
        self._tracks: dict[str, _Track] = {}
        self._cards: dict[str, Card] = {}
        self._uuids: dict[str, str] = {}
        self._ended: deque[Piece] = deque(maxlen=most_waiting)
        self._samples = SampleCollector(most_waiting)
        self._lost_ms: tuple[int, int] | None = None
        self._numbers = 0
        self._now_ms = 0

    def change(self, longest_gap_s: float) -> None:
        """Count a gap that is longer than this as not witnessed, from now on."""
        self._gap_ms = round(longest_gap_s * 1000)

    def take(self, status: Status) -> None:
        """Add one tick."""
        now_ms = self._now_ms = round(status.wall_s * 1000)
        for gpu in status.gpus:
            track = self._track(gpu, status)
            self._grow(track, gpu, now_ms)
            self._samples.add(track.uuid, gpu, now_ms // 1000)

    def batch(self) -> Batch:
        """Return what is not written yet. Intervals that go on are returned each time they have grown."""
        pieces = list(self._ended)
        self._ended.clear()
        for track in self._tracks.values():
            if track.grown:
                pieces.append(track.piece())
                track.grown = False
        batch = Batch(self._now_ms, self._cards, pieces, self._samples.take(), self._lost_ms)
        self._cards, self._lost_ms = {}, None
        return batch

    def _track(self, gpu: GpuStatus, status: Status) -> "_Track":
        """Return the track of a GPU; one that no longer reports its UUID is the one that was seen in its place."""
        label, uuid, name = gpu.label, gpu.uuid, gpu.name
        if isinstance(uuid, Unknown):
            uuid = self._uuids.get(label, f"GPU {label}")
        else:
            self._uuids[label] = uuid
        track = self._tracks.get(uuid)
        if track is not None and track.label == label and (track.name == name or isinstance(name, Unknown)):
            return track
        card = Card(uuid, label, printable(name) if isinstance(name, str) else "?", status.host, status.simulated)
        self._cards[uuid] = card
        if track is None:
            track = self._tracks[uuid] = _Track(uuid)
        track.label, track.name = label, name
        return track

    def _grow(self, track: "_Track", gpu: GpuStatus, now_ms: int) -> None:
        crew = track.crew_of(gpu)
        before_ms, track.at_ms = track.at_ms, now_ms
        if before_ms is None or not 0 <= now_ms - before_ms <= self._gap_ms:
            self._end(track)
            return
        if track.activity is not gpu.activity or track.crew != crew:
            self._end(track)
        if track.number and now_ms <= track.quarter_ends_ms:
            track.end_ms, track.grown = now_ms, now_ms > before_ms or track.grown
            track.draw(gpu, now_ms - before_ms)
            return
        at_ms = before_ms
        while at_ms < now_ms:
            if track.number and at_ms >= track.quarter_ends_ms:
                self._end(track)
            if not track.number:
                self._numbers += 1
                track.begin(self._numbers, at_ms, gpu.activity, crew)
            began_ms, at_ms = at_ms, min(now_ms, track.quarter_ends_ms)
            track.end_ms, track.grown = at_ms, True
            track.draw(gpu, at_ms - began_ms)

    def _end(self, track: "_Track") -> None:
        if track.grown:
            if len(self._ended) == self._ended.maxlen:
                first, (since_ms, until_ms) = self._ended[0], self._lost_ms or (self._now_ms, 0)
                self._lost_ms = min(since_ms, first.begin_ms), max(until_ms, first.end_ms)
            self._ended.append(track.piece())
        track.number, track.grown = 0, False


class _Track:
    """What is kept of one GPU from tick to tick: its interval (number 0: none), and its crew (its holders)."""

    def __init__(self, uuid: str) -> None:
        self.uuid = uuid
        self.label = ""
        self.name: str | Unknown = ""
        self.at_ms: int | None = None
        self.number = 0
        self.begin_ms = self.end_ms = self.quarter_ends_ms = 0
        self.activity = Activity.UNKNOWN
        self.crew = ""
        self.grown = False
        self._energy_mj = 0.0
        self._metered_ms = 0
        self._holders: object = None
        self._crew = ""

    def begin(self, number: int, at_ms: int, activity: Activity, crew: str) -> None:
        """Begin a new interval of length zero."""
        self.number, self.begin_ms, self.activity, self.crew = number, at_ms, activity, crew
        self.quarter_ends_ms = (at_ms // QUARTER_MS + 1) * QUARTER_MS
        self._energy_mj, self._metered_ms = 0.0, 0

    def draw(self, gpu: GpuStatus, ms: int) -> None:
        """Add what the GPU drew in that time; a MIG instance shows the power of its whole card."""
        if gpu.mig is None and not isinstance(gpu.power_w, Unknown):
            self._energy_mj += gpu.power_w * ms
            self._metered_ms += ms

    def piece(self) -> Piece:
        """Return the interval as it is now."""
        energy_mj = round(self._energy_mj)
        return Piece(
            *(self.number, self.uuid, self.begin_ms, self.end_ms, self.activity, self.crew),
            energy_mj,
            self._metered_ms,
        )

    def crew_of(self, gpu: GpuStatus) -> str:
        """Return the holders of this tick as they are stored; formatted again only when they have changed."""
        people = people_on(gpu)
        key = (
            gpu.activity in AVAILABLE,
            gpu.claim,
            [(one.user, one.command, one.owner) for one in people],
        )
        if key != self._holders:
            self._holders, self._crew = key, crew_text(gpu)
        return self._crew


def crew_text(gpu: GpuStatus) -> str:
    """Return the holders as they are stored: each user and job; only users if there are too many."""
    return text_of_parties(_few(parties_of(gpu)))


def text_of_parties(parties: tuple[Party, ...]) -> str:
    """Return parties as they are stored; no holder is an empty list."""
    rows = [[party.user, party.job] for party in parties if party != NOBODY]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def parties_of_text(text: str) -> tuple[Party, ...]:
    """Return the parties of a stored crew. One that cannot be read is an unknown user."""
    try:
        parties = in_order(Party(str(row[0]), str(row[1])) for row in json.loads(text))
    except (ValueError, TypeError, IndexError, KeyError):
        return (SOMEBODY,)
    return parties or (NOBODY,)


def _few(parties: tuple[Party, ...]) -> tuple[Party, ...]:
    if len(parties) <= _MOST_HOLDERS:
        return parties
    return in_order(Party(party.user, MANY_JOBS) for party in parties)
