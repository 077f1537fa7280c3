"""The forms of the page that change something: protect, release, stop. Each refusal is a sentence on a page.

Protections go the same way as those of the API. What a person stops, `fallow stop` stops, as their user (see
stop_orders.py): first it is looked at and shown, and then they agree or not.
"""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from fallow.core.account import Account
from fallow.core.gpu_status import people_on
from fallow.core.units import bytes_for_people, duration_for_people, span_s
from fallow.engine.daemon.sources import Sources
from fallow.engine.stop.for_person import GRACE_S, SIGNAL, StoppedOne, is_subject
from fallow.interfaces.web.caller import Refused, caller_of, demand_change, done, who_asks
from fallow.interfaces.web.forms import form_of
from fallow.interfaces.web.login import Edition
from fallow.interfaces.web.page_parts import Renderer
from fallow.interfaces.web.routes import Routes
from fallow.interfaces.web.stop_orders import StopOrder, StopOrders
from fallow.interfaces.web.way_back import back_from

_LONGEST_WHY = 200
_MOST_SHOWN = 50
_LADDER = f"SIG{SIGNAL}, then SIGKILL {duration_for_people(GRACE_S)} later for what is left"


class Actions:
    """Answers the forms."""

    def __init__(self, sources: Sources, renderer: Renderer, static: Edition) -> None:
        self._sources = sources
        self._renderer = renderer
        self._static = static
        self.orders = StopOrders(sources.stops, sources.clock)

    async def place(self, request: Request) -> Response:
        """Place a protection in the name of who asks. It replaces theirs on the same thing that end no later."""
        peer = demand_change(request)
        form = await form_of(request)
        subject, why = form.get("subject", ""), form.get("why", "")[:_LONGEST_WHY]
        placed = done(lambda: self._sources.protect(subject, span_s(form.get("for", "")), why, peer))
        for before in self._sources.protections():
            same = (before.target, before.by_user) == (placed.target, placed.by_user)
            if same and before.id not in (placed.id, 0) and before.until_wall_s <= placed.until_wall_s:
                done(lambda number=before.id: self._sources.release_protection(number, peer))  # type: ignore[misc]
        return RedirectResponse(back_from(request), 303)

    async def release(self, request: Request) -> Response:
        """End a protection before its time."""
        peer, number = demand_change(request), request.path_params["number"]
        if not (number.isascii() and number.isdecimal() and len(number) < len("4000000000")):
            raise Refused(404, "usage", "there is no such protection")
        done(lambda: self._sources.release_protection(int(number), peer))
        return RedirectResponse(back_from(request), 303)

    async def begin_stop(self, request: Request) -> Response:
        """Look at what a person wants to stop."""
        who = _demand_person(request)
        form = await form_of(request)
        what, only_mine = form.get("subject", ""), form.get("only") == "mine"
        if not is_subject(what):
            raise Refused(422, "usage", "name a GPU or a process to stop, as gpu:3 or pid:1234")
        subjects = self._mine_on(what, who) if only_mine else [what]
        order = self.orders.begin(who, _in_words(what, only_mine=only_mine), subjects)
        order.asked = what
        return RedirectResponse(f"/stops/{order.id}", 303)

    async def show_stop(self, request: Request) -> Response:
        """Return how far an order has come; before it is done, what would be done."""
        who = _demand_person(request)
        order = self.orders.find(who, request.path_params["order"])
        return self._page(request, 200, order=_view(order), mine_on=self._mine_alone(order))

    async def agree(self, request: Request) -> Response:
        """Stop what was shown."""
        who = _demand_person(request)
        order = self.orders.find(who, request.path_params["order"])
        board = self._sources.board()
        self.orders.agree(order, dry_run=board is None or board.is_dry_run)
        return RedirectResponse(f"/stops/{order.id}", 303)

    def refused(self, request: Request, refusal: Refused) -> Response:
        """Return a page that says why something was not done."""
        answer = self._page(
            request, refusal.code, sentence=refusal.detail, to_login=refusal.code == HTTPStatus.UNAUTHORIZED
        )
        answer.headers.update(refusal.headers or {})
        return answer

    def _page(self, request: Request, code: int, **values: object) -> Response:
        facts = {"order": None, "sentence": "", "to_login": False, "mine_on": "", **values}
        caller = caller_of(request)
        about = {"edition": self._static.edition, "user": caller.user or "", "ladder": _LADDER, **who_asks(caller)}
        return HTMLResponse(self._renderer.render("confirm.html", **about, **facts), code)

    def _mine_on(self, gpu: str, who: Account) -> list[str]:
        """Return the processes of a user on a GPU, as subjects; raise Refused if there are none."""
        board, label = self._sources.board(), gpu.removeprefix("gpu:")
        found = [each for each in (() if board is None else board.status.gpus) if label in (each.label, each.uuid)]
        own = [f"pid:{holder.pid}" for each in found for holder in people_on(each) if holder.user == who.name]
        if not own:
            raise Refused(404, "usage", f"nothing of yours is on GPU {label}")
        return own

    def _mine_alone(self, order: StopOrder) -> str:
        """Return the GPU on which a person could stop what is theirs alone, where the whole was refused; or empty."""
        if not order.answer.refused or not order.asked.startswith("gpu:"):
            return ""
        try:
            return order.asked if self._mine_on(order.asked, order.who) else ""
        except Refused:
            return ""


def add_actions(pages: Routes, sources: Sources, renderer: Renderer, static: Edition) -> None:
    """Add the routes of the forms."""
    actions = Actions(sources, renderer, static)

    def said(answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> Response:
            try:
                return await answer(request)
            except Refused as refusal:
                return actions.refused(request, refusal)

        return answered

    pages.add("POST", "/protections", said(actions.place))
    pages.add("POST", "/protections/{number}/release", said(actions.release))
    pages.add("POST", "/stops", said(actions.begin_stop))
    pages.add("GET", "/stops/{order}", said(actions.show_stop))
    pages.add("POST", "/stops/{order}", said(actions.agree))


def _demand_person(request: Request) -> Account:
    """Return the user that the caller is by a token of their own; raise Refused for all others."""
    caller = caller_of(request)
    if caller.account is not None:
        return caller.account
    if not caller.has_token:
        raise Refused(403, "permission", "nobody can stop a job here: the config names no person with a token")
    if not caller.knows_token:
        raise Refused(401, "token", "to stop a job, log in with a token of your own", {"www-authenticate": "Bearer"})
    raise Refused(403, "permission", "with the token that people share nobody stops a job; log in with your own")


def _in_words(subject: str, *, only_mine: bool) -> str:
    kind, _, name = subject.partition(":")
    if kind == "gpu":
        return f"what is {'yours ' if only_mine else ''}on GPU {name}"
    if kind == "pid":
        return f"process {name.partition('@')[0]}"
    return "all that is yours" if kind == "mine" else f"{kind} {name}"


def _view(order: StopOrder) -> dict[str, object]:
    answer = order.answer
    jobs = [_job(job) for job in answer.jobs[:_MOST_SHOWN]]
    return {
        "id": order.id,
        "what": order.what,
        "stage": order.stage.value,
        "is_under_way": order.is_under_way,
        "is_dry_run": order.is_dry_run,
        "jobs": jobs,
        "more": max(0, len(answer.jobs) - _MOST_SHOWN),
        "ready": len(answer.ready),
        "refused": answer.refused,
    }


def _job(job: StoppedOne) -> dict[str, object]:
    return {
        "name": job.name,
        "gpus": job.gpus or "?",
        "memory": "not known" if job.memory_bytes is None else bytes_for_people(job.memory_bytes),
        "idle": "not known" if job.idle_s is None else f"for {duration_for_people(job.idle_s)}",
        "way": job.way,
        "outcome": job.outcome,
        "because": job.because,
        "processes": len(job.processes),
    }
