"""The values of the dashboard: what is available, what is wasted, a tile for each GPU, the stops that are due.

Unknown is counted neither as available nor as wasted.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from urllib.parse import quote

from fallow.core.activity import AVAILABLE, UNUSED, Activity
from fallow.core.board import Board, Counting, outlook_on
from fallow.core.findings import process_key, process_of_key
from fallow.core.gpu_status import GpuStatus, load_of, people_on
from fallow.core.interval import Card
from fallow.core.main_job import main_job
from fallow.core.money import Prices
from fallow.core.protections import covering
from fallow.core.reservations import Claim
from fallow.core.units import duration_for_people, shortened
from fallow.core.unknown import Unknown
from fallow.engine.jobs.protections import affected_by
from fallow.interfaces.web.view_models import Timer, View, coarsely, part_name

ALL, MINE = "all", "mine"
_GROUPS = {"available": AVAILABLE, "wasted": UNUSED}
SHOWS = (ALL, MINE, *_GROUPS, *(activity.value for activity in Activity))
"""What `?show=` may name."""
_LONGEST_USER = 32
_LONGEST_WHAT = 80
_LONGEST_REASON = 240
_NAMED = 4
_IN_SECONDS_S = 120.0
_FEW, _SOME = 4, 24


def gpu_address(gpu: GpuStatus) -> str:
    """Return the address of the page about a GPU: by its UUID, or by its label where that is not known."""
    return f"/gpus/{quote(gpu.uuid if isinstance(gpu.uuid, str) else gpu.label, safe='')}"


def user_address(user: str) -> str:
    """Return the address of the page about a user."""
    return f"/users/{quote(user, safe='')}"


def job_address_of(keys: Iterable[str]) -> str:
    """Return the address of the page about the job with these keys: by its oldest process; empty if it has none."""
    found = [process for process in map(process_of_key, keys) if process is not None]
    pid, birth = min(found, key=lambda each: (each[1], each[0]), default=(0, 0))
    return f"/jobs/{pid}-{birth}" if found else ""


def density(gpus: int) -> str:
    """Return how many GPUs there are, as a class of the style: the more, the smaller are their tiles."""
    return "few" if gpus <= _FEW else "some" if gpus <= _SOME else "many"


def available(board: Board) -> View:
    """Return what is available now."""
    status = board.status
    kinds = [f"{status.counted[each]} {each.value}" for each in AVAILABLE if each in status.counted]
    return {
        "number": status.available,
        "of": len(status.gpus),
        "kinds": ", ".join(kinds),
        "gpus": ranges([gpu for gpu in status.gpus if gpu.activity in AVAILABLE]),
        "unknown": status.counted.get(Activity.UNKNOWN, 0),
    }


def ranges(gpus: Sequence[GpuStatus]) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Return the GPUs as ranges: the label and the address of the first and the last of each, or of a single one."""
    found: list[list[GpuStatus]] = []
    for gpu in gpus:
        last = found[-1][-1] if found else None
        if last is not None and last.mig is None and gpu.mig is None and gpu.index == last.index + 1:
            found[-1].append(gpu)
        else:
            found.append([gpu])
    ends = ((run[0], run[-1]) if len(run) > 1 else (run[0],) for run in found)
    return tuple(tuple((gpu.label, gpu_address(gpu)) for gpu in each) for each in ends)


def wasted(board: Board) -> View:
    """Return what is held and unused now, the longest first, and what that costs an hour."""
    gpus = sorted((gpu for gpu in board.status.gpus if gpu.activity in UNUSED), key=lambda gpu: -(gpu.for_s or 0.0))
    known = [price for gpu in gpus if not isinstance(price := _price(gpu, board.prices), Unknown)]
    return {
        "number": len(gpus),
        "money": board.prices.in_words(sum(known)) if known or (board.prices.given and not gpus) else "",
        "unpriced": len(gpus) - len(known) if board.prices.given else 0,
        "gpus": tuple(_wasting(gpu) for gpu in gpus[:_NAMED]),
        "more": max(0, len(gpus) - _NAMED),
    }


def tiles(board: Board) -> tuple[View, ...]:
    """Return a tile for each GPU, in their order."""
    is_small = density(len(board.status.gpus)) == "many"
    return tuple(_tile(gpu, board, is_small=is_small) for gpu in board.status.gpus)


def counts(board: Board) -> dict[str, str]:
    """Return how many GPUs each filter shows, by the names that the page gives these figures."""
    counted = board.status.counted
    figures = {f"count-{activity.value}": str(counted.get(activity, 0)) for activity in Activity}
    groups = {
        f"count-{group}": str(sum(counted.get(each, 0) for each in within)) for group, within in _GROUPS.items()
    }
    return {"count-all": str(len(board.status.gpus)), **groups, **figures}


def why_not_shown(show: str, mine: str | None) -> str:
    """Return why a filter that was asked for is not applied; empty if it is, or if none was asked for."""
    if show == MINE and mine is None:
        return "Which GPUs are yours is not known here, so all are shown: log in with a token of your own."
    if show in ("", *SHOWS):
        return ""
    asked = shortened(show, _LONGEST_USER)
    return f"There is no filter {asked!r}, so all GPUs are shown. Known are: {', '.join(SHOWS)}."


def is_shown(tile: View, show: str, mine: str | None) -> bool:
    """Return whether a filter shows a tile."""
    if show == MINE:
        return mine in tile["users"]
    return show == ALL or show in tile["shows"]


def stops(board: Board, hidden: Collection[str] = ()) -> list[View]:
    """Return what the rules do next, the soonest first; at the end what is kept from happening, and by what.

    `hidden`: the names of GPUs that a filter does not show, and so no stop on them alone.
    """
    labels, users = {gpu.uuid: gpu for gpu in board.status.gpus}, _users_by_key(board.status.gpus)
    due = [each for each in board.counting if each.is_due]
    due.sort(key=lambda each: (each.kept_by is not None, _when_s(each)))
    return [
        {
            "rule": shortened(each.rule, _LONGEST_WHAT),
            "job": shortened(each.subject, _LONGEST_WHAT),
            "address": job_address_of(each.processes),
            "users": tuple(sorted({users[key] for key in each.processes if key in users})),
            "action": "ask" if each.stops_in_s is not None and not each.parks else each.action,
            "in": Timer(f"due-{number}", _in(_when_s(each))),
            "warned": Timer(f"due-warn-{number}", _in(each.in_s)) if each.notice_s is not None else None,
            "fault": each.fault,
            "lasted": Timer(f"due-for-{number}", coarsely(each.for_s)),
            "counted": each.lasted,
            "kept": shortened(each.kept_by or "", _LONGEST_REASON),
            "why": shortened(
                next((labels[uuid].because for uuid in each.uuids if uuid in labels), ""), _LONGEST_REASON
            ),
            "gpus": tuple((labels[uuid].label, gpu_address(labels[uuid])) for uuid in each.uuids if uuid in labels),
            **_on(each, labels, hidden),
        }
        for number, each in enumerate(due)
    ]


def _on(each: Counting, gpus: Mapping[str | Unknown, GpuStatus], hidden: Collection[str]) -> View:
    """Return the names of the GPUs that a stop is on, and whether a filter hides all of them."""
    names = [part_name(gpus[uuid]) for uuid in each.uuids if uuid in gpus]
    return {"on": " ".join(names), "hidden": bool(hidden) and set(names) <= set(hidden)}


def _users_by_key(gpus: Iterable[GpuStatus]) -> dict[str, str]:
    """Return whose the processes on the GPUs are, by their keys in the journal."""
    holders = [holder for gpu in gpus for holder in people_on(gpu)]
    return {
        process_key(each.pid, each.birth): shortened(each.user, _LONGEST_USER)
        for each in holders
        if not isinstance(each.birth, Unknown) and not isinstance(each.user, Unknown)
    }


def _tile(gpu: GpuStatus, board: Board, *, is_small: bool) -> View:
    name, job, load = part_name(gpu), main_job(gpu), load_of(gpu)
    outlook = outlook_on(gpu.uuid, board.counting)
    lasted, left = (_short, _short_in) if is_small else (coarsely, _in)
    who = "" if job is None or isinstance(job.user, Unknown) else shortened(job.user, _LONGEST_USER)
    return {
        "name": name,
        "label": gpu.label,
        "address": gpu_address(gpu),
        "activity": gpu.activity,
        "shows": (gpu.activity.value, *(group for group, within in _GROUPS.items() if gpu.activity in within)),
        "users": users_of(gpu),
        "load": Timer(f"load-{name}", "?" if isinstance(load, Unknown) else f"{load:.0%}"),
        "level": None if isinstance(load, Unknown) else min(100, round(100 * load)),
        "lasted": None if gpu.for_s is None else Timer(f"since-{name}", lasted(gpu.for_s)),
        "who": who,
        "more": 0 if job is None else job.more,
        "what": "" if job is None else shortened(job.named, _LONGEST_WHAT),
        "stops": None if outlook.stops_in_s is None else Timer(f"stop-{name}", left(outlook.stops_in_s)),
        "kept": shortened(outlook.kept_back or "", _LONGEST_REASON),
        "waiting": gpu.waiting,
        **_protection(gpu, name, board),
    }


def users_of(gpu: GpuStatus) -> tuple[str, ...]:
    """Return the users who hold or have claimed a GPU, each once."""
    named = [holder.user for holder in people_on(gpu)]
    named += [each.user for each in (gpu.claim, gpu.filler) if isinstance(each, Claim) and each.user]
    return tuple(dict.fromkeys(shortened(user, _LONGEST_USER) for user in named if not isinstance(user, Unknown)))


def _protection(gpu: GpuStatus, name: str, board: Board) -> View:
    """Return whether the GPU is protected, or something on it, by whom, and until the last of these ends.

    Of a process below one that holds it, only that it is protected is known here.
    """
    found = covering(board.protections, affected_by([gpu]), board.status.wall_s)
    last = max(found, key=lambda each: each.until_wall_s, default=None)
    left_s = 0.0 if last is None or last.until_wall_s == inf else last.until_wall_s - board.status.wall_s
    return {
        "protected": last is not None
        or any(gpu.uuid in each.uuids and each.left_alone is not None for each in board.counting),
        "protected_by": "" if last is None else shortened(last.by_user, _LONGEST_USER),
        "protected_for": Timer(f"safe-{name}", coarsely(left_s)) if left_s > 0 else None,
    }


def _short(seconds: float) -> str:
    """Return a duration in its largest unit alone, which fits a small tile."""
    unit_s = next((unit_s for unit_s in (86_400, 3_600, 60) if seconds >= unit_s), 1)
    return duration_for_people(seconds // unit_s * unit_s)


def _when_s(each: Counting) -> float:
    """Return when the job is stopped; where no stop follows, when something else is done."""
    return each.in_s if each.stops_in_s is None else each.stops_in_s


def _in(seconds: float) -> str:
    """Return a time to wait, in minutes where nobody counts the seconds: fewer figures change every second."""
    return duration_for_people(round(seconds) if seconds < _IN_SECONDS_S else seconds // 60 * 60)


def _short_in(seconds: float) -> str:
    """Return a time to wait in one unit, which fits a small tile."""
    return f"{round(seconds)}s" if seconds < _IN_SECONDS_S else _short(seconds)


def _wasting(gpu: GpuStatus) -> View:
    job = main_job(gpu)
    return {
        "label": gpu.label,
        "address": gpu_address(gpu),
        "who": "" if job is None or isinstance(job.user, Unknown) else shortened(job.user, _LONGEST_USER),
        "lasted": None if gpu.for_s is None else Timer(f"for-{part_name(gpu)}", coarsely(gpu.for_s)),
    }


def _price(gpu: GpuStatus, prices: Prices) -> float | Unknown:
    name = "" if isinstance(gpu.name, Unknown) else gpu.name
    return prices.of(Card(gpu.uuid if isinstance(gpu.uuid, str) else "", gpu.label, name))
