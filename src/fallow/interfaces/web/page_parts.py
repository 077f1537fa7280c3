"""Render the page in parts: each once per tick for all watchers, and sent only when it has changed.

Parts contain times and readings that change at every tick. A part in which only these have changed is not sent again:
their texts, and the widths of their bars, are sent alone, by name.
"""

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup, escape

from fallow.core.activity import Activity
from fallow.core.board import Board, protected_otherwise
from fallow.core.cluster import ClusterBoard
from fallow.core.gpu import labels_of
from fallow.core.units import shortened
from fallow.core.value import replace, value
from fallow.core.visibility import ANYBODY
from fallow.engine.daemon.sources import Sources
from fallow.engine.machine.local_zone import LocalZone
from fallow.interfaces.render.colours import LOOKS
from fallow.interfaces.web import cluster_page, dashboard, view_models
from fallow.interfaces.web.cached_reads import CachedReads, Cost
from fallow.interfaces.web.cluster_views import ClusterViews
from fallow.interfaces.web.day import STEPS, Strips
from fallow.interfaces.web.journal_rows import journal_rows
from fallow.interfaces.web.plots import PlotReads, Plotted
from fallow.interfaces.web.view_models import Timer, View

_LONGEST_SENTENCE = 240
_TIMER = re.compile(r'data-timer="([^"]*)">([^<]*)<')
_LEVEL = re.compile(r'data-level="([^"]*)" width="([^"]*)"')
_MOST_SAID = 4
FIGURES_EVERY_S = 5.0
"""How long readings wait before they are sent, where nothing else has changed."""
DURATIONS = (("30m", "30 minutes"), ("1h", "1 hour"), ("2h", "2 hours"), ("8h", "8 hours"), ("1d", "1 day"))
"""For how long the forms offer to protect something."""


@value
class Parts:
    """All parts of the page at one moment, as HTML, by their ids."""

    at: str
    html: dict[str, str]
    layout: str
    """Which GPUs there are: when that changes, the page is laid out again."""
    activities: dict[str, tuple[Activity, str]]
    figures: dict[str, str]
    """Texts outside of the parts, by their names: each visitor has what is around them in another way."""
    next_s: float
    """Within how many seconds the next news come: readings are sent at the first look after their wait."""

    def whole(self, edition: str) -> bytes:
        """Return all parts as an event, for a watcher who is new or has missed something."""
        about = {"edition": edition, "layout": self.layout, "at": self.at, "next_s": self.next_s}
        return _event({**about, "parts": self.html, "timers": self.figures})

    def since(self, before: "Parts") -> bytes:
        """Return as an event what has changed since then."""
        parts: dict[str, str] = {}
        timers = _changed(before.figures, self.figures)
        levels: dict[str, str] = {}
        for name, html in self.html.items():
            old = before.html.get(name)
            if old == html:
                continue
            if old is None or _still(old) != _still(html):
                parts[name] = html
            else:
                timers.update(_changed(dict(_TIMER.findall(old)), dict(_TIMER.findall(html))))
                levels.update(_changed(dict(_LEVEL.findall(old)), dict(_LEVEL.findall(html))))
        about = {"layout": self.layout, "at": self.at, "next_s": self.next_s}
        news: dict[str, Any] = {"parts": parts, "timers": timers, "levels": levels, "said": self._said(before)}
        return _event(about | news)

    def _said(self, before: "Parts") -> list[str]:
        """Return sentences about GPUs whose activity has changed, for screen readers."""
        changed = [
            f"GPU {label} is {activity} now: {because}"
            for label, (activity, because) in self.activities.items()
            if label in before.activities and before.activities[label][0] is not activity
        ]
        more = len(changed) - _MOST_SAID
        return [*changed[:_MOST_SAID], f"and {more} more GPUs changed"] if more > 0 else changed


class Renderer:
    """Renders the page and its parts."""

    def __init__(self, sources: Sources, archive: CachedReads, plots: PlotReads) -> None:
        self._sources = sources
        self._archive = archive
        self._plots = plots
        self._zone = LocalZone()
        self._clusters = ClusterViews()
        self._made: dict[str, tuple[dict[str, object], str]] = {}
        self._templates = _templates()

    async def parts(self) -> Parts:
        """Return all parts as they are now."""
        board, next_s = self._sources.board(), FIGURES_EVERY_S + self._sources.machine().every
        if board is None:
            return Parts("", {}, "", {}, {}, next_s)
        uuids = tuple(gpu.uuid for gpu in board.status.gpus if isinstance(gpu.uuid, str))
        strips = await self._archive.strips(uuids)
        cost = await self._archive.cost()
        summary = {"available": dashboard.available(board), "wasted": dashboard.wasted(board), "most": _most(cost)}
        html = {
            "summary": self._part("summary", "summary", **summary),
            **self._gpus(board, strips),
            "stops": self._part("stops", "stops", stops=dashboard.stops(board)),
            "cost": self._part("cost", "cost", cost=cost),
            "protections": self._part("protections", "protections", **self._protections(board, None)),
            "actions": self._part(
                "actions", "journal", rows=await self._events(), gpu_labels=labels_of(board.status.gpus)
            ),
        }
        if board.fillers:
            html["fillers"] = self._part("fillers", "fillers", fillers=view_models.fillers(board.fillers))
        if board.guards:
            html["guards"] = self._part("guards", "guards", guards=view_models.guards(board.guards))
        if board.cluster is not None:
            html["cluster"] = self._part("cluster", "cluster", cluster=self._cluster(board.cluster, board))
        activities = {gpu.label: (gpu.activity, gpu.because) for gpu in board.status.gpus}
        layout = " ".join((*activities, *(part for part in ("cluster", "fillers", "guards") if part in html)))
        return Parts(self._clock(board), html, layout, activities, dashboard.counts(board), next_s)

    async def page(
        self, *, known: bool, show: str, mine: str | None, span: str = "", **about_the_visitor: object
    ) -> str:
        """Return the whole page; a visitor who is not `known` may change nothing, and gets no buttons for that.

        `show` is the filter that they have chosen, `mine` their user name; None if that is not known. `span`: how
        much time the plots show.
        """
        board = self._sources.board()
        template = self._templates.get_template("page.html")
        parts = await self.parts()
        own = (mine or self._sources.user) if known else ""
        tiles = () if board is None else dashboard.tiles(board)
        shown = show if show in dashboard.SHOWS and (mine or show != dashboard.MINE) else dashboard.ALL
        hidden = {tile["name"] for tile in tiles if not dashboard.is_shown(tile, shown, mine)}
        if board is not None:
            found = self._protections(board, own)
            theirs = {"protections": self._part(f"protections of {own}", "protections", **found)}
            if hidden:
                due = dashboard.stops(board, hidden)
                theirs["stops"] = self._templates.get_template("parts/stops.html").render(stops=due)
            parts = replace(parts, html=parts.html | theirs)
        return template.render(
            machine=None if board is None else self._machine(board),
            parts=parts,
            plots=await self._plots_of_all(board, span, shown),
            tiles=tiles,
            hidden=hidden,
            number_of_mine=sum(dashboard.is_shown(tile, dashboard.MINE, mine) for tile in tiles),
            density=dashboard.density(len(tiles)),
            show=shown,
            why_not_shown=dashboard.why_not_shown(show, mine),
            mine=mine,
            own=own,
            durations=DURATIONS,
            known=known,
            **about_the_visitor,
        )

    def render(self, template: str, **values: object) -> str:
        """Return one page of its own, such as that of a GPU, or the one that asks before a job is stopped."""
        return self._templates.get_template(template).render(**values)

    def missing(self, sentence: str, **about: object) -> str:
        """Return the page about what does not exist."""
        board = self._sources.board()
        host = "fallow" if board is None else shortened(board.status.host)
        return self.render("missing.html", sentence=sentence, host=host, **about)

    async def _plots_of_all(self, board: Board | None, span: str, show: str) -> View | None:
        """Return the plots of all GPUs, and where those of each one are."""
        if board is None:
            return None
        uuids = tuple(gpu.uuid for gpu in board.status.gpus if isinstance(gpu.uuid, str))
        address = "/" if show == dashboard.ALL else f"/?show={show}"
        view = await self._plots.view(Plotted(uuids), span, address, "Over time")
        self._plots.read_ahead(Plotted(uuids))
        return view | {"gpus": tuple((gpu.label, dashboard.gpu_address(gpu)) for gpu in board.status.gpus)}

    def login(self, **about_the_visitor: object) -> str:
        """Return the form that asks for the token."""
        return self._templates.get_template("login.html").render(**about_the_visitor)

    def _cluster(self, found: ClusterBoard, board: Board) -> View:
        view = self._clusters.of(found, board.rights_of(ANYBODY))
        return cluster_page.cluster(view, self._sources.clock.wall_s())

    def _gpus(self, board: Board, strips: Strips | str) -> dict[str, str]:
        html: dict[str, str] = {}
        why_unknown = strips if isinstance(strips, str) else ""
        day = Strips({}, ()) if isinstance(strips, str) else strips
        models = view_models.models(board)
        views = zip(board.status.gpus, dashboard.tiles(board), view_models.cards(board), strict=True)
        for gpu, tile, card in views:
            name = tile["name"]
            html[f"tile-{name}"] = self._part(f"tile-{name}", "tile", tile=tile)
            html[f"row-{name}"] = self._part(f"row-{name}", "row", card=card, address=tile["address"], models=models)
            strip = day.by_uuid.get(str(gpu.uuid))
            html[f"day-{name}"] = self._part(f"day-{name}", "strip", label=gpu.label, strip=strip)
        return html | {"day-ticks": self._part("day-ticks", "ticks", ticks=day.ticks, why_unknown=why_unknown)}

    def _protections(self, board: Board, own: str | None) -> View:
        others = protected_otherwise(board.counting, board.protections)
        return {
            "protections": view_models.protections(board.protections, board, self._sources.clock.wall_s(), own),
            "others": [shortened(sentence, _LONGEST_SENTENCE) for sentence in others],
        }

    async def _events(self) -> list[View] | str:
        found = await self._archive.events()
        return found if isinstance(found, str) else journal_rows(found, self._sources.clock.wall_s(), self._zone)

    def _part(self, name: str, template: str, **values: object) -> str:
        """Return a part, rendered again only if its values have changed; of its timers, only their texts are."""
        before, html = self._made.get(name, ({}, ""))
        if before != values:
            timers = _changed_timers(before, values)
            if timers is None:
                html = self._templates.get_template(f"parts/{template}.html").render(**values)
            else:
                html = _TIMER.sub(lambda found: f'data-timer="{found[1]}">{timers.get(found[1], found[2])}<', html)
            self._made[name] = values, html
        return html

    def _clock(self, board: Board) -> str:
        return f"{datetime.fromtimestamp(board.status.wall_s, UTC).astimezone(self._zone):%H:%M:%S}"

    def _machine(self, board: Board) -> View:
        return view_models.machine(board, self._sources.clock.wall_s())


@cache
def _templates() -> Environment:
    """Return all templates, as they were at first: an update of the files does not change a running daemon."""
    folder = files("fallow.interfaces.web") / "templates"
    texts = {
        f"{within}{file.name}": file.read_text("utf-8")
        for within in ("", "parts/")
        for file in (folder / within).iterdir()
        if file.is_file()
    }
    made = Environment(
        loader=DictLoader(texts),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals.update(looks=LOOKS, width=STEPS)
    made.filters.update(user_address=dashboard.user_address)
    return made


def _most(cost: Cost | str) -> View | None:
    """Return who wasted most in the last week; None if nobody did, or it cannot be read."""
    if isinstance(cost, str) or not cost.users:
        return None
    user, address, wasted, price = cost.users[0]
    return {"user": user, "address": address, "wasted": wasted, "price": price if cost.priced else ""}


def _still(html: str) -> str:
    """Return the part without the texts of its timers and the widths of its bars."""
    return _LEVEL.sub(r'data-level="\1"', _TIMER.sub(r'data-timer="\1"><', html))


def _changed_timers(before: object, now: object) -> dict[str, Markup] | None:
    """Return the new texts of the timers in which two values differ, by their names; None if they differ in more."""
    if before == now:
        return {}
    if isinstance(now, Timer):
        same = isinstance(before, Timer) and before.key == now.key
        return {now.key: escape(now.text)} if same else None
    pairs: Iterable[tuple[object, object]]
    if isinstance(now, dict) and isinstance(before, dict) and now.keys() == before.keys():
        pairs = ((before[name], now[name]) for name in now)
    elif isinstance(now, list | tuple) and type(before) is type(now) and len(before) == len(now):
        pairs = zip(before, now, strict=True)
    else:
        return None
    found: dict[str, Markup] = {}
    for old, new in pairs:
        changed = _changed_timers(old, new)
        if changed is None:
            return None
        found |= changed
    return found


def _changed(before: dict[str, str], now: dict[str, str]) -> dict[str, str]:
    return {key: text for key, text in now.items() if before.get(key) != text}


def _event(news: dict[str, Any]) -> bytes:
    sent = {name: value for name, value in news.items() if value not in ({}, [])}
    return b"data: " + json.dumps(sent, separators=(",", ":")).encode() + b"\n\n"
