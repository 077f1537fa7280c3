"""One question to the API of a Kubernetes cluster, its answer, and the right that it takes."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from fallow.core.units import printable
from fallow.core.unknown import Unknown
from fallow.core.value import value

Json = Mapping[str, object]
_NOTHING: Json = {}
FORBIDDEN, NOT_FOUND, CONFLICT, TOO_MANY = 403, 404, 409, 429
_LONGEST_WORDS = 200
MERGE = "application/merge-patch+json"


@value
class Resource:
    """A kind of objects in the API: `apps/v1` and `deployments`."""

    api: str
    plural: str

    @property
    def group(self) -> str:
        """Return its API group; empty for the core's."""
        return self.api.rpartition("/")[0]

    def path(self, namespace: str = "", name: str = "", part: str = "") -> str:
        """Return the path of the objects of a namespace, of one of them, or of a part of it, such as its scale."""
        root = f"/apis/{self.api}" if self.group else f"/api/{self.api}"
        within = f"/namespaces/{namespace}" if namespace else ""
        return root + within + f"/{self.plural}" + (f"/{name}" if name else "") + (f"/{part}" if part else "")


@value
class Question:
    """What is asked of the API, in the words of its rights."""

    does: str
    """One of get, list, create and patch."""
    resource: Resource
    namespace: str = ""
    name: str = ""
    part: str = ""
    body: Json | None = None
    params: tuple[tuple[str, str], ...] = ()
    only_metadata: bool = False
    """Whether the answer is the metadata of the objects alone."""

    @property
    def method(self) -> str:
        """Return the HTTP method."""
        return {"get": "GET", "list": "GET", "create": "POST", "patch": "PATCH"}[self.does]

    @property
    def path(self) -> str:
        """Return the path that is asked."""
        return self.resource.path(self.namespace, self.name, self.part)

    @property
    def right(self) -> str:
        """Return the right that it takes: `patch deployments/scale (apps) in the namespace ml`."""
        what = self.resource.plural + (f"/{self.part}" if self.part else "")
        group = f" ({self.resource.group})" if self.resource.group else ""
        return f"{self.does} {what}{group} in " + (
            f"the namespace {self.namespace}" if self.namespace else "all namespaces"
        )


@value
class KubeAnswer:
    """The status of an answer, and its object; an empty one if it was none."""

    status: int
    body: Json = _NOTHING

    @property
    def ok(self) -> bool:
        """Return whether it was done."""
        return 200 <= self.status < 300

    def why_not(self, question: Question) -> str:
        """Return why it was not done, for people; of a refusal, the right that is missing."""
        if self.status == FORBIDDEN:
            return f"fallow lacks the right to {question.right}; give it as examples/kubernetes/rbac.yaml does"
        said = text(self.body, "message")
        return f"the API server answered {self.status}" + (f": {said}" if said else "")


class KubeApi(Protocol):
    """Asks the API of one cluster. It never waits longer than it may, and reads no more than a limit."""

    def __call__(self, question: Question) -> KubeAnswer | Unknown:
        """Return the answer, or why there is none."""


def part(of: object, *names: str) -> Json:
    """Return an object within an object; an empty one if there is none."""
    for name in names:
        of = of.get(name) if isinstance(of, Mapping) else None
    return of if isinstance(of, Mapping) else {}


def items(of: object, name: str) -> Sequence[Json]:
    """Return the objects of a list within an object."""
    found = of.get(name) if isinstance(of, Mapping) else None
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def text(of: Json, name: str, most: int = _LONGEST_WORDS) -> str:
    """Return a text of an object, cut to some length and without anything that a terminal would obey."""
    found = of.get(name)
    return printable(found[:most]) if isinstance(found, str) else ""


def number(of: Json, name: str) -> int | None:
    """Return a whole number of an object, or None."""
    found = of.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def texts(of: Json, name: str) -> dict[str, str]:
    """Return the pairs of texts within an object, such as its annotations, unchanged: their readers bound them."""
    return {key: each for key, each in part(of, name).items() if isinstance(each, str)}
