"""Reports of hosts are other machines' words: what is no report raises, and what is one is added up."""

from typing import Any

import pytest

from fallow.engine.fleet.report import TIMES, Told, added_up, told_by


def line(user: str, idle_s: float, cost: float | None = None) -> dict[str, Any]:
    return {"user": user, **dict.fromkeys(TIMES, 0.0), "idle_s": idle_s, "observed_s": idle_s, "cost": cost}


def facts(*lines: dict[str, Any], currency: str | None = None) -> dict[str, Any]:
    return {"lines": list(lines), "currency": currency}


def by_user(host: str, told: dict[str, Any]) -> Told:
    return told_by(host, told, "user")


def test_users_are_added_up_over_hosts_the_most_idle_first() -> None:
    found = added_up(
        [by_user("gpu1", facts(line("alice", 10), line("bob", 5))), by_user("gpu2", facts(line("bob", 20)))], "user"
    )
    assert [(each["user"], each["idle_s"], each["hosts"]) for each in found["lines"]] == [
        ("bob", 25, ["gpu1", "gpu2"]),
        ("alice", 10, ["gpu1"]),
    ]
    assert found["total"]["idle_s"] == 35


def gpu(label: str, idle_s: float) -> dict[str, Any]:
    return {**line("", idle_s), "gpu": label, "uuid": f"GPU-{label}", "name": "H100"}


def test_hosts_are_sums_of_their_gpus_and_gpus_stay_in_order_even_with_the_same_uuid() -> None:
    answers = {"gpu1": facts(gpu("0", 1), gpu("1", 2)), "gpu2": facts(gpu("0", 20))}
    hosts = added_up([told_by(name, each, "host") for name, each in answers.items()], "host")
    assert [(each["host"], each["idle_s"], each["hosts"]) for each in hosts["lines"]] == [
        ("gpu2", 20, ["gpu2"]),
        ("gpu1", 3, ["gpu1"]),
    ]
    gpus = added_up([told_by(name, each, "gpu") for name, each in answers.items()], "gpu")
    assert [(each["host"], each["gpu"], each["uuid"], each["idle_s"]) for each in gpus["lines"]] == [
        ("gpu1", "0", "GPU-0", 1),
        ("gpu1", "1", "GPU-1", 2),
        ("gpu2", "0", "GPU-0", 20),
    ]


def test_jobs_are_added_up_with_their_user_and_days_in_their_order() -> None:
    jobs = [told_by(name, facts({**line("alice", 5), "job": "python3"}), "job") for name in ("gpu1", "gpu2")]
    (found,) = added_up(jobs, "job")["lines"]
    assert (found["job"], found["user"], found["idle_s"], found["hosts"]) == (
        "python3",
        "alice",
        10,
        ["gpu1", "gpu2"],
    )
    later, earlier = ({**line("", seconds), "day": day} for day, seconds in (("2026-11-02", 9), ("2026-11-01", 1)))
    days = added_up([told_by("gpu1", facts(later), "day"), told_by("gpu2", facts(earlier, later), "day")], "day")
    assert [(each["day"], each["idle_s"]) for each in days["lines"]] == [("2026-11-01", 1), ("2026-11-02", 18)]


def test_money_is_added_up_only_where_it_is_known_and_of_one_currency() -> None:
    one = by_user("gpu1", facts(line("alice", 10, 1.5), currency="USD"))
    assert added_up([one, one], "user")["total"]["cost"] == 3.0
    euros = by_user("gpu2", facts(line("alice", 10, 1.5), currency="EUR"))
    assert added_up([one, euros], "user")["total"]["cost"] is None
    free = by_user("gpu2", facts(line("alice", 10), currency="USD"))
    assert added_up([one, free], "user")["total"]["cost"] is None


def test_nothing_told_is_zero_hours() -> None:
    assert added_up([], "user")["total"]["observed_s"] == 0


@pytest.mark.parametrize(
    "wrong",
    [
        *({}, {"lines": None, "currency": None}, facts({"user": "alice"}), facts(line("a", -1))),
        *(
            facts(line("a", float("nan"))),
            facts(line("a", True)),
            facts(line("a", "1")),
            facts(*[line("a", 1)] * 10_001),
        ),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_report_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        by_user("gpu1", wrong)


def test_a_users_name_from_elsewhere_is_printable_and_short() -> None:
    (((name,), _, _),) = by_user("gpu1", facts(line("\x1b[2J" + "x" * 500, 1))).lines
    assert name.isprintable()
    assert len(name) <= 200
