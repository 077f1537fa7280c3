"""What every JSON for programs has: its version, what can be taken, what is protected, and when a job is stopped."""

import json
from typing import Any

import pytest

from fallow.core.activity import Activity
from fallow.core.board import Counting
from fallow.core.gpu_status import Status
from fallow.core.protections import Everything, OneGpu, Protection
from fallow.core.settling import SETTLING_S
from fallow.core.unknown import Unknown
from fallow.core.value import replace
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


@pytest.mark.parametrize(
    ("activity", "available"),
    [(Activity.FREE, True), (Activity.FILLED, True)]
    + [(each, False) for each in (Activity.BUSY, Activity.IDLE, Activity.STUCK, Activity.UNKNOWN)],
)
def test_free_and_filled_gpus_are_available_and_no_others(activity: Activity, available: bool) -> None:
    assert told(activity=activity)["available"] is available


def test_the_protection_of_a_gpu_is_the_one_that_lasts_longest() -> None:
    uuid = str(card(0, Activity.IDLE, "", 10).uuid)
    short = Protection(1, OneGpu(uuid), NOW_S + 60, "debugging", "ada")
    long = Protection(2, Everything(), NOW_S + 600, "", "bob")
    other = Protection(3, OneGpu("GPU-another"), NOW_S + 6000, "", "bob")
    over = Protection(4, OneGpu(uuid), NOW_S - 1, "", "bob")
    assert told(protections=[short, long, other, over])["protection"] == as_json.protection_facts(long)
    assert told(protections=[other, over])["protection"] is None


def test_protections_that_cannot_be_read_are_unknown_and_not_none() -> None:
    facts = told(protections=Unknown("the folder is gone"))
    assert facts["protection"] is None
    assert facts["unknown"]["protection"] == "the folder is gone"


def test_the_time_of_a_stop_is_told_before_the_job_is_warned_with_the_time_of_the_warning() -> None:
    soon = told(counting("warn", 90.0, notice_s=60.0))
    assert (soon["stops_at"], soon["warns_at"]) == (as_json.iso_time(NOW_S + 150), as_json.iso_time(NOW_S + 90))
    warned = told(counting("ask", 60.0))
    assert (warned["stops_at"], warned["warns_at"]) == (as_json.iso_time(NOW_S + 60), None)


def test_a_job_that_only_pauses_in_its_work_has_no_stop() -> None:
    pauses = replace(counting("warn", 2399.0, notice_s=600.0), for_s=1.0)
    assert told(pauses)["stops_at"] is None
    assert told(replace(pauses, for_s=SETTLING_S))["stops_at"] is not None


def test_the_time_of_a_stop_is_told_only_if_it_will_be() -> None:
    assert told(counting("ask", 90.0))["stops_at"] == as_json.iso_time(NOW_S + 90)
    assert told(counting("ask", 90.0), counting("ask", 30.0))["stops_at"] == as_json.iso_time(NOW_S + 30)
    assert told(counting("warn", 90.0))["stops_at"] is None
    assert told(counting("ask", 90.0, refused="it is root's"))["stops_at"] is None
    assert told(counting("ask", 90.0, left_alone="ada protects all"))["stops_at"] is None
    assert told()["stops_at"] is None


def test_the_time_of_a_kill_is_told_once_a_job_was_asked_to_end() -> None:
    assert told(counting("kill", 8.0), counting("kill", 20.0))["killed_at"] == as_json.iso_time(NOW_S + 8)
    assert told(counting("kill", 8.0))["stops_at"] is None
    assert told(counting("ask", 8.0))["killed_at"] is None


def test_a_stop_that_is_due_and_not_done_is_told_with_its_reason() -> None:
    limit = "3 jobs were stopped in the last hour"
    assert told(counting("ask", 0.0, refused=limit))["stop_held_back"] == limit
    assert told(counting("ask", 0.0, refused=limit, left_alone="ada protects all"))["stop_held_back"] is None
    assert told(counting("ask", 90.0))["stop_held_back"] is None
