"""What every JSON for programs has: its version, what can be taken, what is protected, and when a job is stopped."""

import json
from typing import Any

import pytest

from fallow.core.activity import Activity
from fallow.core.board import Counting
from fallow.core.gpu_status import Status
from fallow.core.unknown import Unknown
from fallow.interfaces.render import as_json
from tests.conftest import Fallow
from tests.interfaces.web.boards import card
from tests.places import REPOSITORY

NOW_S = 1_800_000_000.0


def told(*counting: Counting, protections: Any = (), activity: Activity = Activity.IDLE) -> dict[str, Any]:
    gpu = card(0, activity, "as the test says", 10)
    (facts,) = as_json.status(Status("host", True, NOW_S, (gpu,)), protections, counting)["gpus"]
    return dict(facts)


def counting(action: str, in_s: float, **more: Any) -> Counting:
    uuid = str(card(0, Activity.IDLE, "", 10).uuid)
    return Counting("night", "ada's python", (uuid,), (), "idle", 60.0, action, in_s, **more)


@pytest.mark.parametrize(
    "words",
    [
        ("status", "--json"),
        ("pick", "--format", "json"),
        ("report", "--format", "json"),
        ("why", "0", "--json"),
        ("protect", "--for", "1h", "--json"),
        ("protect", "--list", "--json"),
        ("doctor", "--json"),
        ("check", "--json", str(REPOSITORY / "src" / "fallow" / "examples" / "fallow.toml")),
        ("burn", "--gpus", "0", "--for", "10ms", "--json"),
    ],
    ids=lambda words: words[0],
)
def test_every_command_prints_one_object_that_begins_with_its_version(
    simulated: Fallow, words: tuple[str, ...]
) -> None:
    said = simulated(*words).stdout
    found = json.loads(said)
    assert next(iter(found.items())) == ("version", as_json.VERSION)
    assert said == json.dumps(found, indent=2) + "\n", "all of them are indented alike"


def test_protections_that_cannot_be_read_are_unknown_and_not_none() -> None:
    facts = told(protections=Unknown("the folder is gone"))
    assert facts["protection"] is None
    assert facts["unknown"]["protection"] == "the folder is gone"


def test_the_time_of_a_stop_is_told_before_the_job_is_warned_with_the_time_of_the_warning() -> None:
    soon = told(counting("warn", 90.0, notice_s=60.0))
    assert (soon["stops_at"], soon["warns_at"]) == (as_json.iso_time(NOW_S + 150), as_json.iso_time(NOW_S + 90))
    warned = told(counting("ask", 60.0))
    assert (warned["stops_at"], warned["warns_at"]) == (as_json.iso_time(NOW_S + 60), None)


def test_the_time_of_a_stop_is_told_only_if_it_will_be() -> None:
    assert told(counting("ask", 90.0))["stops_at"] == as_json.iso_time(NOW_S + 90)
    assert told(counting("ask", 90.0), counting("ask", 30.0))["stops_at"] == as_json.iso_time(NOW_S + 30)
    assert told(counting("warn", 90.0))["stops_at"] is None
    assert told(counting("ask", 90.0, refused="it is root's"))["stops_at"] is None
    assert told(counting("ask", 90.0, left_alone="ada protects all"))["stops_at"] is None
    assert told()["stops_at"] is None


def test_a_stop_that_is_due_and_not_done_is_told_with_its_reason() -> None:
    limit = "3 jobs were stopped in the last hour"
    assert told(counting("ask", 0.0, refused=limit))["stop_held_back"] == limit
    assert told(counting("ask", 0.0, refused=limit, left_alone="ada protects all"))["stop_held_back"] is None
    assert told(counting("ask", 90.0))["stop_held_back"] is None
