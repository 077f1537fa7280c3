"""The forms of the page that change something: place a protection, and release it."""

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from fallow.core.units import span_s
from fallow.engine.daemon.sources import Sources
from fallow.interfaces.web.caller import demand_change, done
from fallow.interfaces.web.forms import form_of

_LONGEST_WHY = 200


def add_protection_forms(pages: APIRouter, sources: Sources) -> None:
    """Add the routes of the forms for protections."""

    @pages.post("/protections")
    async def place(request: Request) -> Response:
        peer = demand_change(request)
        form = await form_of(request)
        subject, why = form.get("subject", ""), form.get("why", "")[:_LONGEST_WHY]
        done(lambda: sources.protect(subject, span_s(form.get("for", "")), why, peer))
        return RedirectResponse("/#protections-title", 303)

    @pages.post("/protections/{number}/release")
    async def release(request: Request, number: int) -> Response:
        peer = demand_change(request)
        done(lambda: sources.release_protection(number, peer))
        return RedirectResponse("/#protections-title", 303)
