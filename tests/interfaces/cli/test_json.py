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
from fallow.interfaces.render import as_json
from tests.conftest import Fallow
from tests.interfaces.web.boards import card
from tests.places import REPOSITORY

NOW_S = 1_800_000_000.0
UUID = str(card(0, Activity.IDLE, "", 10).uuid)
LIMIT = "3 jobs were stopped in the last hour"
PLANNED = ("stops_at", "warns_at", "killed_at", "stop_held_back")


def told(*counting: Counting, protections: Any = (), activity: Activity = Activity.IDLE) -> dict[str, Any]:
    gpu = card(0, activity, "as the test says", 10)
    (facts,) = as_json.status(Status("host", True, NOW_S, (gpu,)), protections, counting)["gpus"]
    return dict(facts)


def counting(action: str, in_s: float, for_s: float = 60.0, **more: Any) -> Counting:
    return Counting("night", "ada's python", (UUID,), (), "idle", for_s, action, in_s, **more)


@pytest.mark.parametrize(
    "words",
    [
        ("status", "--json"),
        ("pick", "--format", "json"),
        ("report", "--format", "json"),
        ("why", "0", "--json"),
        ("protect", "--for", "1h", "--json"),
        ("doctor", "--json"),
        ("check", "--json", str(REPOSITORY / "src" / "fallow" / "examples" / "fallow.toml")),
        ("burn", "--gpus", "0", "--for", "10ms", "--json"),
    ],
    ids=lambda words: words[0],
)
def test_every_command_prints_one_object_that_begins_with_its_version(
    simulated: Fallow, words: tuple[str, ...]
) -> None:
    found = json.loads(simulated(*words).stdout)
    assert next(iter(found.items())) == ("version", as_json.VERSION)


def test_free_and_filled_gpus_are_available_and_no_others() -> None:
    found = {each for each in Activity if told(activity=each)["available"]}
    assert found == {Activity.FREE, Activity.FILLED}


def test_the_protection_of_a_gpu_is_the_one_that_lasts_longest_or_unknown() -> None:
    short = Protection(1, OneGpu(UUID), NOW_S + 60, "debugging", "ada")
    long = Protection(2, Everything(), NOW_S + 600, "", "bob")
    other = Protection(3, OneGpu("GPU-another"), NOW_S + 6000, "", "bob")
    over = Protection(4, OneGpu(UUID), NOW_S - 1, "", "bob")
    assert told(protections=[short, long, other, over])["protection"] == as_json.protection_facts(long)
    assert told(protections=[other, over])["protection"] is None
    unreadable = told(protections=Unknown("the folder is gone"))
    assert (unreadable["protection"], unreadable["unknown"]["protection"]) == (None, "the folder is gone")


@pytest.mark.parametrize(
    ("rules", "planned"),
    [
        ((), (None, None, None, None)),
        ((counting("warn", 90.0, notice_s=60.0),), (150, 90, None, None)),
        ((counting("warn", 90.0, 1.0, notice_s=60.0),), (None, None, None, None)),
        ((counting("warn", 90.0, SETTLING_S, notice_s=60.0),), (150, 90, None, None)),
        ((counting("warn", 90.0),), (None, None, None, None)),
        ((counting("ask", 90.0), counting("ask", 30.0)), (30, None, None, None)),
        ((counting("ask", 90.0, refused=LIMIT),), (None, None, None, LIMIT)),
        ((counting("ask", 90.0, left_alone="ada protects all"),), (None, None, None, None)),
        ((counting("ask", 0.0, refused=LIMIT, left_alone="ada protects all"),), (None, None, None, None)),
        ((counting("kill", 20.0), counting("kill", 8.0)), (None, None, 8, None)),
    ],
)
def test_the_times_of_a_warning_a_stop_and_a_kill_are_told_only_if_they_will_be(
    rules: tuple[Counting, ...], planned: tuple[int | str | None, ...]
) -> None:
    facts = told(*rules)
    wanted = [as_json.iso_time(NOW_S + each) if isinstance(each, int) else each for each in planned]
    assert [facts[name] for name in PLANNED] == wanted
