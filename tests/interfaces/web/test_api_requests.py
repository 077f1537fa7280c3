"""What `/api/v1` takes and answers: docs/reference/json.md says it, and what does not fit gets a sentence."""

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fallow.core.board import Board, Counting
from fallow.core.value import replace
from fallow.engine.history.journal import Journal
from tests.interfaces.web import clusters
from tests.interfaces.web.boards import varied
from tests.interfaces.web.histories import record
from tests.interfaces.web.served import TOKEN, Site, hall, served
from tests.places import REPOSITORY
from tests.reasons import said

JSON = "application/json"
NEW = '{"subject":"all","for_s":60}'
REFERENCE = (REPOSITORY / "docs" / "reference" / "json.md").read_text()
ROWS = re.findall(r"^\| `(GET|POST|DELETE) (/api/v1/\S+)` \| (.*) \|$", REFERENCE, re.MULTILINE)
UUID = str(varied(0.0).status.gpus[1].uuid)
EXAMPLES = {
    "gpus=0-3": "gpus=0",
    "gpu=UUID": f"gpu={UUID}",
    "gpu:UUID": f"gpu:{UUID}",
    "MS,MS,…": "0,9000000000000",
    "=…": "=1",
}
# What stands in an answer under names that are data: users, labels, kinds of evidence.
OF_DATA = {"unknown", "facts", "labels", "counts"}


def full(wall_s: float) -> Board:
    """A board on which there is something of everything."""
    rule = Counting("nights", "bob's job", (UUID,), (), "idle", 60.0, "ask", 540.0)
    return replace(varied(wall_s), cluster=clusters.small(wall_s), counting=(rule,))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("requests")
    record(home, full(time.time()), 60)
    journal = Journal(str(home / "state"), time.time, print)
    journal.action("GPU 1", "ask", said("idle for 1h"), [f"gpu:{UUID}"])
    journal.close()
    with served(hall(full), home, token=TOKEN) as made:
        yield made


def names_in(answer: Any) -> Iterator[str]:
    """All names of fields in an answer."""
    if isinstance(answer, list):
        for each in answer:
            yield from names_in(each)
    elif isinstance(answer, dict):
        for name, each in answer.items():
            yield name
            yield from () if name in OF_DATA else names_in(each)


def test_the_reference_names_every_route_of_the_api_and_no_other(site: Site) -> None:
    routes = {
        (method, route.path)
        for route in site.app.routes
        for method in route.methods - {"HEAD"}
        if route.path.startswith("/api/")
    }
    assert {(method, path.partition("?")[0].replace("482913775", "{number}")) for method, path, _ in ROWS} == routes


@pytest.mark.parametrize(("path", "says"), [row[1:] for row in ROWS if row[0] == "GET"])
def test_an_address_takes_the_keys_and_answers_the_fields_that_the_reference_names(
    site: Site, path: str, says: str
) -> None:
    place, _, query = path.partition("?")
    known = site.ask(f"{place}?x=1").json["detail"].partition("known are: ")[2]
    keys = set(known.split(", ")) - {"none"}
    assert set(re.findall(r"(\w+)=", query)) <= keys
    assert [key for key in keys if f"{key}=" not in query and f"`{key}`" not in says] == []
    for written, real in EXAMPLES.items():
        path = path.replace(written, real)
    answer = site.ask(path)
    assert answer.status == 200, answer.text
    told = set(names_in(answer.json)) - {"version"}
    named = set(re.findall(r"`(\w+)`", says))
    also = set(re.findall(r"`(\w+)`", REFERENCE)) if re.search(r"`fallow [^`]*`|`/api/", says) else set()
    assert told - named - also == set()
    words = {"null", "unless", "limit", "until_s", "fallow"} | keys
    assert {name for name in named - words if not re.fullmatch(r"\d+\w", name)} <= told


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("idle?for_s=soon", "for_s is a number from 0 to "),
        ("idle?for_s=nan", "for_s is a number from 0 to "),
        ("idle?for_s=-1", "for_s is a number from 0 to "),
        ("idle?for_s=5&for_s=soon", "for_s is a number from 0 to "),
        ("history?since_s=604801", "since_s is a number from 0.001 to 604800"),
        ("events?limit=1.5", "limit is a whole number from 1 to 500"),
        ("events?limit=501", "limit is a whole number from 1 to 500"),
        ("report?by=nobody", "by is one of gpu, user, job, day"),
        ("report?since=1h", "'since' is no key here; known are: since_s, by, until_s"),
        ("history/tallies", "edges is 2 to 64 moments"),
        ("history/tallies?edges=1", "edges is 2 to 64 moments"),
        ("history/tallies?edges=0.5,2", "edges is 2 to 64 moments"),
        (f"history/tallies?edges=1,{10**30}", "edges is 2 to 64 moments"),
        (f"history/tallies?edges={','.join(['12345'] * 65)}", "edges is 2 to 64 moments"),
        ("cluster?subject=", "subject is a text of 1 to 200 characters"),
        (f"idle?gpus={'0' * 201}", "gpus is a text of 1 to 200 characters"),
        ("series?subject=gpus", "subject is gpu:UUID, job:PID-BIRTH or user:NAME"),
        ("history/activities?since_ms=1&until_ms=2", "gpu is the UUID of a GPU, and is needed"),
        ("history/activities?gpu=a&since_ms=1", "until_ms is a whole number from 0 to "),
        ("status?gpu=3", "'gpu' is no key here; known are: none"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_the_name_of_its_key(site: Site, asked: str, says: str) -> None:
    answer = site.ask(f"/api/v1/{asked}")
    assert (answer.status, answer.json["reason"]) == (422, "usage")
    assert says in answer.json["detail"]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (NEW, 201, ""),
        ('{"subject":"all","for_s":60.5,"why":"debugging"}', 201, ""),
        ("", 422, "the body is a JSON object, with nothing but subject, for_s, why"),
        ("[]", 422, "the body is a JSON object"),
        ("{", 422, "the body is a JSON object"),
        (b'{"subject":"\xff"}', 422, "the body is a JSON object"),
        ("[" * 5000, 422, "the body is a JSON object"),
        ('{"subject":"all","for_s":' + "9" * 5000 + "}", 422, "the body is a JSON object"),
        ('{"subject":"all"}', 422, "subject and for_s are needed in the body"),
        ('{"subject":"all","for_s":60,"by":"root"}', 422, "nothing but subject, for_s, why"),
        ('{"subject":"all","for_s":"60"}', 422, "for_s in the body is of another kind"),
        ('{"subject":"all","for_s":true}', 422, "for_s in the body is of another kind"),
        ('{"subject":"all","for_s":NaN}', 422, "lasts for some time, and at most a year"),
        ('{"subject":"all","for_s":-1}', 422, "lasts for some time, and at most a year"),
        ('{"subject":"all","for_s":60,"why":"' + "x" * 301 + '"}', 422, "why in the body has at most 300 characters"),
        ('{"subject":"user:\\ud800","for_s":60}', 404, "there is no user"),
    ],
)
def test_a_body_is_an_object_in_json_with_the_fields_that_are_known(
    site: Site, body: str | bytes, status: int, says: str
) -> None:
    headers = {"content-type": JSON, "authorization": f"Bearer {TOKEN}"}
    answer = site.ask("/api/v1/protections", "POST", body, headers)
    assert answer.status == status, answer.text
    assert says in answer.json.get("detail", "")
    if status == 201:
        assert site.with_token(f"/api/v1/protections/{answer.json['id']}", "DELETE").status == 204


def test_who_may_change_nothing_hears_that_before_what_is_wrong_with_the_request(site: Site) -> None:
    assert site.ask("/api/v1/protections", "POST", {}).status == 401
    assert site.ask("/api/v1/protections/none", "DELETE").status == 401
    answer = site.with_token("/api/v1/protections/none", "DELETE")
    assert (answer.status, answer.json["detail"]) == (422, "number is a whole number from 1 to 2147483647")


@pytest.mark.parametrize(
    ("path", "method", "allowed"),
    [
        ("/api/v1/status", "POST", "GET, HEAD"),
        ("/api/v1/protections", "PUT", "GET, HEAD, POST"),
        ("/api/v1/protections/1", "GET", "DELETE"),
        ("/login", "PUT", "GET, HEAD, POST"),
        ("/", "OPTIONS", "GET, HEAD"),
    ],
)
def test_a_method_that_a_path_does_not_know_is_405_with_those_that_it_knows(
    site: Site, path: str, method: str, allowed: str
) -> None:
    answer = site.ask(path, method)
    assert (answer.status, answer.headers["allow"]) == (405, allowed)
