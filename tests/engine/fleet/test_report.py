"""Reports of hosts are other machines' words: what is no report raises, and what is one is added up."""

from typing import Any

import pytest

from fallow.engine.fleet.report import TIMES, added_up, told_by


def line(user: str, idle_s: float, cost: float | None = None) -> dict[str, Any]:
    return {"user": user, **dict.fromkeys(TIMES, 0.0), "idle_s": idle_s, "observed_s": idle_s, "cost": cost}


def facts(*lines: dict[str, Any], currency: str | None = None) -> dict[str, Any]:
    return {"lines": list(lines), "currency": currency}


def test_users_are_added_up_over_hosts_the_most_idle_first() -> None:
    told = [told_by("gpu1", facts(line("alice", 10), line("bob", 5))), told_by("gpu2", facts(line("bob", 20)))]
    found = added_up(told, "user")
    assert [(each["user"], each["idle_s"], each["hosts"]) for each in found["lines"]] == [
        ("bob", 25, ["gpu1", "gpu2"]),
        ("alice", 10, ["gpu1"]),
    ]
    assert found["total"]["idle_s"] == 35
    assert [each["host"] for each in added_up(told, "host")["lines"]] == ["gpu2", "gpu1"]


def test_money_is_added_up_only_where_it_is_known_and_of_one_currency() -> None:
    one = told_by("gpu1", facts(line("alice", 10, 1.5), currency="USD"))
    assert added_up([one, one], "user")["total"]["cost"] == 3.0
    euros = told_by("gpu2", facts(line("alice", 10, 1.5), currency="EUR"))
    assert added_up([one, euros], "user")["total"]["cost"] is None
    free = told_by("gpu2", facts(line("alice", 10), currency="USD"))
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
        told_by("gpu1", wrong)


def test_a_users_name_from_elsewhere_is_printable_and_short() -> None:
    ((name, _, _),) = told_by("gpu1", facts(line("\x1b[2J" + "x" * 500, 1))).lines
    assert name.isprintable()
    assert len(name) <= 64
