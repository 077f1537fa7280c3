"""The description of the API: made for who asks for it, and complete."""

import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.interfaces.web.boards import varied
from tests.interfaces.web.served import TOKEN, Site, hall, served
from tests.places import REPOSITORY

pytestmark = pytest.mark.more

DESCRIPTION = "/api/v1/openapi.json"
ANSWERED = """
import json, pathlib, sys
from tests.interfaces.web.boards import varied
from tests.interfaces.web.served import TOKEN, hall, served

def loaded():
    heavy = ("fastapi", "opentelemetry", "prometheus_client")
    return sorted(name for name in sys.modules if name.startswith((*heavy, "fallow")))

with served(hall(varied), pathlib.Path(sys.argv[1]), token=TOKEN) as site:
    body = {"subject": "all", "for_s": 60}
    answers = [
        site.ask("/").status,
        site.ask("/api/v1/status").status,
        site.ask("/api/v1/series?subject=gpu:0").status,
        site.ask("/api/v1/report?by=nobody").status,
        site.with_token("/api/v1/protections", "POST", body).status,
    ]
    before = loaded()
    site.ask("/api/v1/openapi.json")
    print(json.dumps([answers, before, loaded()]))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(hall(varied), tmp_path_factory.mktemp("described"), token=TOKEN) as made:
        yield made


def test_a_daemon_that_answers_has_loaded_no_framework_and_no_model_of_an_answer(tmp_path: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ANSWERED, str(tmp_path)], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    answers, before, after = json.loads(done.stdout)
    assert answers == [200, 200, 200, 422, 201]
    assert not [name for name in after if not name.startswith("fallow")], "metrics are loaded for who asks for them"
    models = {f"fallow.interfaces.web.{name}" for name in ("models", "cluster_models", "report_models", "openapi")}
    assert models.isdisjoint(before)
    assert models <= set(after), "who asks for the description has them loaded"


def test_the_description_names_every_route_of_the_api_and_each_model_that_it_refers_to(site: Site) -> None:
    told = site.ask(DESCRIPTION).json
    described = {(path, method.upper()) for path, methods in told["paths"].items() for method in methods}
    routes = {
        (route.path, method)
        for route in site.app.routes
        for method in route.methods - {"HEAD"}
        if route.path.startswith("/api/v1/") and route.path != DESCRIPTION
    }
    assert described == routes
    words = json.dumps(told).split('"#/components/schemas/')[1:]
    assert {word.partition('"')[0] for word in words} <= told["components"]["schemas"].keys()


def test_the_description_tells_keys_bodies_and_what_needs_the_token(site: Site) -> None:
    paths = site.ask(DESCRIPTION).json["paths"]
    assert paths["/api/v1/events"]["get"]["parameters"][0] == {
        "name": "limit",
        "in": "query",
        "required": False,
        "schema": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
    }
    (number,) = paths["/api/v1/protections/{number}"]["delete"]["parameters"]
    assert (number["in"], number["required"]) == ("path", True)
    place = paths["/api/v1/protections"]["post"]
    assert place["security"] == [{"HTTPBearer": []}]
    assert place["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/NewProtection")
    assert place["responses"].keys() == {"201", "400", "401", "403", "404", "409", "422", "503"}
    assert "security" not in paths["/api/v1/status"]["get"]


def test_the_description_is_made_once(site: Site) -> None:
    assert site.ask(DESCRIPTION).body == site.ask(DESCRIPTION).body
    assert site.ask(DESCRIPTION, "HEAD").status == 200
