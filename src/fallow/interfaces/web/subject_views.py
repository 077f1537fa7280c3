"""What the pages about a GPU, a job and a user show: what is used now, hours, money, whose they were.

Hours are those of the report: if several share a GPU, each has a part of its time. Who held a GPU is matched as
history has it; what a reader sees of a command is what `core/visibility.py` lets them see.
"""

from collections.abc import Callable, Iterable, Sequence
from urllib.parse import quote

from fallow.core.activity import Activity
from fallow.core.board import Board
from fallow.core.findings import process_key
from fallow.core.gpu import Holder
from fallow.core.gpu_status import GpuStatus, people_on
from fallow.core.interval import NOBODY, SOMEBODY, Interval, Party, party_of
from fallow.core.units import bytes_for_people, shortened
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value
from fallow.core.visibility import Viewer, interval_seen_by
from fallow.engine.history.report import Report
from fallow.interfaces.render.report_text import cost_for_people, time_spent
from fallow.interfaces.web import dashboard
from fallow.interfaces.web.view_models import View
from fallow.policies.cost import Bill, By, Line, bill, shared_out

_LONGEST = 96
_LONGEST_NAME = 48
_LINES_SHOWN = 12
_HELD_SHOWN = 64
_WASTED = (Activity.IDLE, Activity.STUCK)


@value
class Held:
    """A process on a GPU: as it is, to be matched, and as the reader may see it."""

    gpu: GpuStatus
    holder: Holder
    seen: Holder

    @property
    def party(self) -> Party:
        """Return it as history names it."""
        return party_of(self.holder)


def held_now(board: Board | None, viewer: Viewer) -> list[Held]:
    """Return every process on every GPU, without fillers."""
    if board is None:
        return []
    whole = board.status if board.full_status is None else board.full_status
    pairs = zip(whole.gpus, board.as_seen_by(viewer).gpus, strict=True)
    return [
        Held(shown, holder, seen)
        for gpu, shown in pairs
        for holder, seen in zip(people_on(gpu), people_on(shown), strict=True)
    ]


def job_address(holder: Holder) -> str:
    """Return the address of the page about a process: a pid is used again, so its birth is in it where known."""
    return f"/jobs/{holder.pid}" + ("" if isinstance(holder.birth, Unknown) else f"-{holder.birth}")


def keys_of(held: Iterable[Held]) -> tuple[str, ...]:
    """Return the keys of these processes in the journal."""
    births = ((one.holder.pid, one.holder.birth) for one in held)
    return tuple(dict.fromkeys(process_key(pid, birth) for pid, birth in births if not isinstance(birth, Unknown)))


def rows_of(held: Sequence[Held]) -> list[View]:
    """Return a line for each process on each GPU."""
    return [_row(one) for one in held[:_HELD_SHOWN]]


def _row(one: Held) -> View:
    seen = one.seen
    user = None if isinstance(seen.user, Unknown) else seen.user
    return {
        "gpu": one.gpu.label,
        "gpu_address": dashboard.gpu_address(one.gpu),
        "activity": one.gpu.activity,
        "user": "not known" if user is None else shortened(user, _LONGEST_NAME),
        "user_address": "" if user is None else dashboard.user_address(user),
        "command": "not known" if isinstance(seen.command, Unknown) else shortened(seen.command, _LONGEST),
        "pid": seen.pid,
        "address": job_address(seen),
        "owner": "not known" if isinstance(seen.owner, Unknown) else shortened(seen.owner.label, _LONGEST_NAME),
        "memory": "not known" if isinstance(seen.memory_bytes, Unknown) else bytes_for_people(seen.memory_bytes),
    }


def narrowed(report: Report, uuid: str | None, matches: Callable[[Party], bool] | None) -> list[Interval]:
    """Return the time of one GPU, or the share of it that some parties have."""
    found = [one for one in report.intervals if uuid in (None, one.uuid)]
    if matches is None:
        return found
    return [
        replace(one, witnessed_ms=ms, parties=(party,))
        for one in found
        for party, ms in shared_out(one.witnessed_ms, one.parties)
        if party not in (NOBODY, SOMEBODY) and matches(party)
    ]


def hours_table(spans: Sequence[tuple[str, Report, list[Interval]]]) -> View:
    """Return the hours of each activity in each span, and what the idle and stuck ones cost."""
    totals = [(name, report, _bill(found, By.GPU, report).total) for name, report, found in spans]
    kinds = [kind for kind in Activity if any(total.ms(kind) for _, _, total in totals)]
    return {
        "kinds": [kind.value for kind in kinds],
        "priced": any(report.prices.given for _, report, _ in totals),
        "rows": [
            (name, [time_spent(total.ms(kind)) for kind in kinds], cost_for_people(total, report))
            for name, report, total in totals
        ],
    }


def lines_by(by: By, report: Report, found: Sequence[Interval], viewer: Viewer, board: Board | None) -> View:
    """Return whose hours they were: by GPU, user or job, the first of many."""
    if by is By.JOB:
        found = [interval_seen_by(one, viewer) for one in found]
    told = _bill(found, by, report)
    lines = [line for line in told.lines if by is By.GPU or line.name[-1] != NOBODY.user]
    return {
        "by": by.value,
        "priced": report.prices.given,
        "rows": [_line(line, by, report, board) for line in lines[:_LINES_SHOWN]],
        "more": max(0, len(lines) - _LINES_SHOWN),
    }


def _bill(found: Iterable[Interval], by: By, report: Report) -> Bill:
    return bill(found, by, report.cards, report.prices, report.zone)


def _line(line: Line, by: By, report: Report, board: Board | None) -> View:
    name, address, user = _named(line, by, report, board)
    return {
        "name": name,
        "address": address,
        "user": user,
        "user_address": dashboard.user_address(user) if user and user != SOMEBODY.user else "",
        "busy": time_spent(line.busy_ms),
        "wasted": time_spent(sum(line.ms(kind) for kind in _WASTED)),
        "cost": cost_for_people(line, report),
    }


def _named(line: Line, by: By, report: Report, board: Board | None) -> tuple[str, str, str]:
    """Return the name of a line, where it leads to, and of a job its user."""
    if by is By.GPU:
        card = report.cards[line.name[0]]
        there = board is not None and any(gpu.uuid == card.uuid for gpu in board.status.gpus)
        return f"GPU {card.label}{'' if there else ' (no longer here)'}", f"/gpus/{quote(card.uuid, safe='')}", ""
    if by is By.USER:
        user = line.name[0]
        known = user != SOMEBODY.user
        return user if known else "not known", dashboard.user_address(user) if known else "", ""
    job, user = line.name
    return shortened(job, _LONGEST), "", user
