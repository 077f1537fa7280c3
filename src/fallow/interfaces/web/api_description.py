"""`/api/v1/openapi.json`: the description of the API."""

import asyncio
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from fallow.interfaces.web.api_routes import PREFIX, Operation
from fallow.interfaces.web.page_routes import PageRoutes

DESCRIPTION = f"{PREFIX}/openapi.json"


def add_description(pages: PageRoutes, operations: Sequence[Operation]) -> None:
    """Add its route."""

    def make() -> bytes:
        from fallow.interfaces.web.openapi import described

        return described(operations)

    @pages.get(DESCRIPTION)
    async def description(_: Request) -> Response:
        return Response(await asyncio.to_thread(make), media_type="application/json")
