"""What `/api/v1` takes: each key and each body, or a sentence that says what is wrong with it."""

from collections.abc import Iterator

import pytest

from tests.interfaces.web.boards import varied
from tests.interfaces.web.served import TOKEN, Site, hall, served

JSON = "application/json"
NEW = '{"subject":"all","for_s":60}'
NO_NUMBER = "Input should be a valid number, unable to parse string as a number"
NO_INTEGER = "Input should be a valid integer, unable to parse string as an integer"
NO_OBJECT = "body: Input should be a valid dictionary or object to extract fields from"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(hall(varied), tmp_path_factory.mktemp("requests"), token=TOKEN) as made:
        yield made


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("idle?for_s=soon", f"query.for_s: {NO_NUMBER}"),
        ("idle?for_s=", f"query.for_s: {NO_NUMBER}"),
        ("idle?for_s=inf", "query.for_s: Input should be a finite number"),
        ("idle?for_s=nan", "query.for_s: Input should be a finite number"),
        ("idle?for_s=-1", "query.for_s: Input should be greater than or equal to 0"),
        ("report?since_s=0", "query.since_s: Input should be greater than 0"),
        ("history?since_s=604801", "query.since_s: Input should be less than or equal to 604800"),
        ("events?limit=1.5", f"query.limit: {NO_INTEGER}"),
        ("events?limit=501", "query.limit: Input should be less than or equal to 500"),
        ("report?by=nobody", "query.by: Input should be 'gpu', 'user', 'job', 'day' or 'week'"),
        ("history/tallies", "query.edges: Field required"),
        ("cluster?subject=", "query.subject: String should have at least 1 character"),
        (f"idle?gpus={'0' * 201}", "query.gpus: String should have at most 200 characters"),
        ("series?subject=gpu:0%0A", "query.subject: String should match pattern"),
        ("history/activities?gpu=a&since_ms=x", f"query.since_ms: {NO_INTEGER}; query.until_ms: Field required"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_the_name_of_its_key(site: Site, asked: str, says: str) -> None:
    answer = site.ask(f"/api/v1/{asked}")
    assert (answer.status, answer.json["reason"]) == (422, "usage")
    assert says in answer.json["detail"]


def test_of_several_values_for_one_key_the_last_counts(site: Site) -> None:
    assert site.ask("/api/v1/idle?for_s=soon&for_s=86400").json["asked_for_s"] == 86400.0
    assert site.ask("/api/v1/idle?for_s=5&for_s=soon").status == 422


def test_a_fault_never_repeats_what_was_sent_and_five_are_enough(site: Site) -> None:
    answer = site.with_token("/api/v1/protections", "POST", {"subject": "<b>", "for_s": "<b>", "why": 1, "a": "<b>"})
    assert answer.status == 422
    assert "<b>" not in answer.json["detail"]
    many = site.with_token("/api/v1/protections", "POST", {str(number): 1 for number in range(9)})
    assert many.json["detail"].count("; ") == 4


@pytest.mark.parametrize(
    ("kind", "body", "status", "says"),
    [
        (JSON, NEW, 201, ""),
        (f"{JSON}; charset=utf-8", NEW, 201, ""),
        ("application/vnd.fallow+json", NEW, 201, ""),
        ("text/plain", NEW, 422, NO_OBJECT),
        ("application/x-www-form-urlencoded", NEW, 422, NO_OBJECT),
        (JSON, "", 422, "body: Field required"),
        (JSON, "[]", 422, NO_OBJECT),
        (JSON, "null", 422, NO_OBJECT),
        (JSON, "{", 422, "body.1: JSON decode error"),
        (JSON, b'{"subject":"\xff"}', 400, "There was an error parsing the body"),
        (JSON, "[" * 5000, 400, "There was an error parsing the body"),
        (JSON, '{"subject":"all","for_s":' + "9" * 5000 + "}", 400, "There was an error parsing the body"),
        (JSON, '{"subject":"all","for_s":"60"}', 422, "body.for_s: Input should be a valid number"),
        (JSON, '{"subject":"all","for_s":NaN}', 422, "body.for_s: Input should be"),
        (JSON, '{"subject":"all","for_s":60,"by":"root"}', 422, "body.by: Extra inputs are not permitted"),
    ],
)
def test_a_body_is_an_object_in_json_with_the_fields_that_are_known(
    site: Site, kind: str, body: str | bytes, status: int, says: str
) -> None:
    headers = {"content-type": kind, "authorization": f"Bearer {TOKEN}"}
    answer = site.ask("/api/v1/protections", "POST", body, headers)
    assert answer.status == status, answer.text
    assert says in answer.json.get("detail", "")


def test_who_may_change_nothing_hears_that_before_what_is_wrong_with_the_request(site: Site) -> None:
    assert site.ask("/api/v1/protections", "POST", {}).status == 401
    assert site.ask("/api/v1/protections/none", "DELETE").status == 401
    assert site.with_token("/api/v1/protections/none", "DELETE").json["detail"] == f"path.number: {NO_INTEGER}"


@pytest.mark.parametrize(
    ("path", "method", "allowed"),
    [
        ("/api/v1/status", "POST", "GET, HEAD"),
        ("/api/v1/protections", "PUT", "GET, HEAD, POST"),
        ("/api/v1/protections/1", "GET", "DELETE"),
        ("/api/v1/openapi.json", "POST", "GET, HEAD"),
        ("/login", "PUT", "GET, HEAD, POST"),
        ("/", "OPTIONS", "GET, HEAD"),
    ],
)
def test_a_method_that_a_path_does_not_know_is_405_with_those_that_it_knows(
    site: Site, path: str, method: str, allowed: str
) -> None:
    answer = site.ask(path, method)
    assert (answer.status, answer.headers["allow"]) == (405, allowed)
