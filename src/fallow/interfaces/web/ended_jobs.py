"""A job that has ended: how, as the journal tells it, and its time on GPUs, as history has it.

History knows a user and a command, not a process. So the time of a job is that of its user's command on its GPUs,
from the last moment before its end back to the first moment at which the command was not there.
"""

from collections.abc import Sequence

from fallow.core.findings import Event, gpu_key
from fallow.core.interval import Interval, Party
from fallow.core.units import program_name
from fallow.core.value import replace, value
from fallow.engine.history.reader import HistoryReader
from fallow.interfaces.web.view_models import View
from fallow.policies.cost import shared_out

_GPU = gpu_key("")
_WINDOW_MS = 6 * 3_600_000
_MOST_WINDOWS = 120
"""So that at most 30 days are read, in parts: most jobs are short."""
_LONGEST_GAP_MS = 60_000
_HOUR_MS = 3_600_000
_ENDINGS = ("asked to end", "killed", "stopped", "parked")


@value
class EndedJob:
    """What history has of a job that has ended."""

    parties: tuple[Party, ...]
    """The user and the command that it was, once each."""
    uuids: tuple[str, ...]
    time: tuple[Interval, ...]
    """Its own share of the time of its GPUs, in order for each GPU."""


def ended_job(past: HistoryReader | None, told: Sequence[Event]) -> EndedJob:
    """Return the time of the job that these events, newest first, tell of; read the disk for it."""
    uuids = tuple(dict.fromkeys(key.removeprefix(_GPU) for one in told for key in one.keys if key.startswith(_GPU)))
    time: list[Interval] = []
    if past is not None:
        try:
            for uuid in uuids:
                time += _last_run(past, uuid, told)
        finally:
            past.close()
    parties = tuple(dict.fromkeys(party for one in time for party in one.parties))
    return EndedJob(parties, uuids, tuple(time))


def within(time: Sequence[Interval], since_ms: int) -> list[Interval]:
    """Return the part of the time that was not before a moment."""
    found: list[Interval] = []
    for one in time:
        whole_ms, begin_ms = one.end_ms - one.begin_ms, max(one.begin_ms, since_ms)
        if one.end_ms > begin_ms:
            ms = one.witnessed_ms * (one.end_ms - begin_ms) // whole_ms
            found.append(replace(one, begin_ms=begin_ms, witnessed_ms=ms))
    return found


def how_it_ended(rows: Sequence[View]) -> str:
    """Return the last that was done to the job, by the journal: `stopped 18m ago: idle for 3m, by rule x`."""
    last = next((row for row in rows if row["lines"]), None)
    if last is None or last["what"] not in _ENDINGS:
        return ""
    by = f", by rule {last['rule']}" if last["rule"] else ""
    return f"{last['what']} {last['ago'].text}: {last['because']}{by}"


def _last_run(past: HistoryReader, uuid: str, told: Sequence[Event]) -> list[Interval]:
    """Return the time of the job on one GPU: back from its end, until it was not there."""
    first_ms, until_ms = round(told[-1].wall_s * 1000), round(told[0].wall_s * 1000) + 1000
    party: Party | None = None
    found: list[Interval] = []
    for _ in range(_MOST_WINDOWS):
        for one in reversed(past.strip(uuid, until_ms - _WINDOW_MS, until_ms)):
            if party is None:
                party = _party(one, told[0])
                if party is None and one.end_ms < first_ms - _HOUR_MS:
                    return []
            if party is None:
                continue
            if party not in one.parties or (found and found[-1].begin_ms - one.end_ms > _LONGEST_GAP_MS):
                return found[::-1]
            ms = next(ms for each, ms in shared_out(one.witnessed_ms, one.parties) if each == party)
            found.append(replace(one, witnessed_ms=ms, parties=(party,)))
        until_ms -= _WINDOW_MS
        if not found or found[-1].begin_ms - until_ms > _LONGEST_GAP_MS:
            break
    return found[::-1]


def _party(one: Interval, last: Event) -> Party | None:
    """Return who of the holders is the job: the program that its name has, or the only one of its user."""
    own = [party for party in one.parties if party.user == last.whose]
    named = [party for party in own if f"({program_name(party.job)})" in last.subject]
    return named[0] if named else own[0] if len(own) == 1 else None
