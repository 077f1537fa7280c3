"""The routes of `/api/v1`: each is noted with what OpenAPI says of it, and gets only requests that fit."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fallow.core.units import shortened
from fallow.core.value import value
from fallow.interfaces.web.caller import Refused, demand_change
from fallow.interfaces.web.json_body import NOTHING, json_in
from fallow.interfaces.web.query_keys import REQUIRED, Key, faults_of

PREFIX = "/api/v1"
_MOST_FAULTS = 5
_MISSING = "Field required"

Endpoint = Callable[..., Awaitable[Response]]
"""Takes the request, the value of each key by its name, and the body as `body` if there is one."""
Problems = Mapping[int, str]
"""What each status means that is no success."""


@value
class Operation:
    """One method of one path."""

    method: str
    path: str
    name: str
    summary: str
    answer: str | None
    """The name of the answer's model; None if it is empty."""
    code: int = 200
    problems: Problems = {}  # noqa: RUF012  frozen as all values
    keys: tuple[Key, ...] = ()
    body: type[BaseModel] | None = None
    guarded: bool = False
    """Whether it needs the right to change something, on the page by the token."""

    def place(self, key: Key) -> str:
        """Return where the key stands: in the path or in the query."""
        return "path" if f"{{{key.name}}}" in self.path else "query"


class ApiRoutes:
    """Collects the routes, and what OpenAPI says of them."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.routes: list[Route] = []

    def get(
        self, path: str, answer: str, summary: str, *, keys: tuple[Key, ...] = (), problems: Problems | None = None
    ) -> Callable[[Endpoint], Endpoint]:
        """Return a decorator for who answers a GET with such a model."""
        return self._noted("get", path, summary, answer=answer, keys=keys, problems=problems or {})

    def post(
        self,
        path: str,
        answer: str,
        summary: str,
        *,
        code: int = 200,
        body: type[BaseModel] | None = None,
        problems: Problems | None = None,
        guarded: bool = False,
    ) -> Callable[[Endpoint], Endpoint]:
        """Return a decorator for who answers a POST with such a model."""
        return self._noted(
            "post", path, summary, answer=answer, code=code, body=body, problems=problems or {}, guarded=guarded
        )

    def delete(
        self, path: str, summary: str, *, keys: tuple[Key, ...], problems: Problems
    ) -> Callable[[Endpoint], Endpoint]:
        """Return a decorator for who answers a DELETE with nothing; only who may change something gets so far."""
        return self._noted("delete", path, summary, answer=None, code=204, keys=keys, problems=problems, guarded=True)

    def _noted(self, method: str, path: str, summary: str, **facts: Any) -> Callable[[Endpoint], Endpoint]:  # noqa: ANN401
        def note(endpoint: Endpoint) -> Endpoint:
            operation = Operation(method, PREFIX + path, endpoint.__name__, summary, **facts)
            self.operations.append(operation)
            self.routes.append(Route(operation.path, _fitting(operation, endpoint), methods=[method]))
            return endpoint

        return note


def _fitting(operation: Operation, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    """Return who passes a request on to its endpoint, or refuses it."""

    async def answer(request: Request) -> Response:
        sent = None if operation.body is None else await json_in(request)
        _demand_known_keys(operation, request)
        if operation.guarded:
            demand_change(request)
        return await endpoint(request, **_values(operation, request, sent))

    return answer


def _demand_known_keys(operation: Operation, request: Request) -> None:
    """Raise Refused for a key of the query that the route does not know: it would be ignored."""
    known = [key.name for key in operation.keys if operation.place(key) == "query"]
    for key in request.query_params:
        if key not in known:
            raise Refused(422, "usage", f"{shortened(key)!r} is no key here; known are: {', '.join(known) or 'none'}")


def _values(operation: Operation, request: Request, sent: object) -> dict[str, Any]:
    """Return the value of each key, and of the body; raise Refused that names what is wrong."""
    found: dict[str, Any] = {}
    faults: list[str] = []
    for key in operation.keys:
        place = operation.place(key)
        raw = _raw(key, place, request)
        if raw:
            try:
                found[key.name] = key.parsed(raw[-1] if not key.takes_many else raw)
            except ValidationError as error:
                faults += faults_of(error, place, key.name)
        elif key.default is REQUIRED:
            faults.append(f"{place}.{key.name}: {_MISSING}")
        else:
            found[key.name] = key.default
    if operation.body is not None:
        if sent is NOTHING:
            faults.append(f"body: {_MISSING}")
        else:
            try:
                found["body"] = operation.body.model_validate(sent, from_attributes=True)
            except ValidationError as error:
                faults += faults_of(error, "body")
    if faults:
        raise Refused(422, "usage", "; ".join(faults[:_MOST_FAULTS]))
    return found


def _raw(key: Key, place: str, request: Request) -> list[str]:
    """Return all that was given for a key, in order."""
    return [request.path_params[key.name]] if place == "path" else request.query_params.getlist(key.name)
