"""The routes of the app: those of a browser, and those of programs."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

Endpoint = Callable[[Request], Awaitable[Response]]


class Routes:
    """Collects routes."""

    def __init__(self) -> None:
        self.routes: list[Route] = []

    def get(self, path: str) -> Callable[[Endpoint], Endpoint]:
        """Return a decorator for who answers a GET."""
        return lambda endpoint: self.add("GET", path, endpoint)

    def post(self, path: str) -> Callable[[Endpoint], Endpoint]:
        """Return a decorator for who answers a POST."""
        return lambda endpoint: self.add("POST", path, endpoint)

    def delete(self, path: str) -> Callable[[Endpoint], Endpoint]:
        """Return a decorator for who answers a DELETE."""
        return lambda endpoint: self.add("DELETE", path, endpoint)

    def add(self, method: str, path: str, endpoint: Endpoint) -> Endpoint:
        """Add a route."""
        self.routes.append(Route(path, endpoint, methods=[method]))
        return endpoint
