"""Reports of hosts are other machines' words: what is no report is refused, and what is one is added up."""

import csv
import io
from typing import Any

import pytest

from fallow.core.reasons import Reason
from fallow.engine.remote.ask import Refused
from fallow.engine.remote.report import TIMES, HostReport, added_up, host_report
from fallow.interfaces.render.hosts_report import as_csv, show_table
from fallow.policies.cost import NAME_FIELDS, By

SILENT = Refused(Reason("host_refuses", why="it is down"))


def line(idle_s: float, cost: float | None = None, **names: str) -> dict[str, Any]:
    zero = dict.fromkeys((*TIMES, "energy_j", "metered_s"), 0.0)
    return {**zero, **names, "idle_s": idle_s, "observed_s": idle_s, "cost": cost}


def gpu(label: str, idle_s: float) -> dict[str, Any]:
    return line(idle_s, gpu=label, uuid=f"GPU-{label}", name="H100")


def report(*lines: dict[str, Any], by: By = By.USER, currency: str | None = None) -> HostReport:
    return host_report({"lines": list(lines), "currency": currency}, NAME_FIELDS[by])


def test_users_are_added_up_over_hosts_the_most_idle_first() -> None:
    first, second = report(line(10, user="alice"), line(5, user="bob")), report(line(20, user="bob"))
    found = added_up([("gpu1", first), ("gpu2", second), ("gpu3", SILENT)], "user")
    assert [(each["user"], each["idle_s"], each["hosts"]) for each in found["lines"]] == [
        ("bob", 25, ["gpu1", "gpu2"]),
        ("alice", 10, ["gpu1"]),
    ]
    assert found["total"]["idle_s"] == 35
    nothing = added_up([("gpu3", SILENT)], "user")["total"]
    assert (nothing["observed_s"], nothing["cost"]) == (0, None)


def test_hosts_are_sums_of_their_gpus_and_gpus_stay_in_order_even_with_the_same_uuid() -> None:
    answers = [("gpu1", report(gpu("0", 1), gpu("1", 2), by=By.GPU)), ("gpu2", report(gpu("0", 20), by=By.GPU))]
    hosts = added_up(answers, "host")["lines"]
    assert [(each["host"], each["idle_s"]) for each in hosts] == [("gpu2", 20), ("gpu1", 3)]
    gpus = added_up(answers, "gpu")["lines"]
    assert [(each["host"], each["gpu"], each["idle_s"]) for each in gpus] == [
        ("gpu1", "0", 1),
        ("gpu1", "1", 2),
        ("gpu2", "0", 20),
    ]


def test_days_of_all_hosts_are_in_their_own_order() -> None:
    later, earlier = line(9, day="2026-11-02"), line(1, day="2026-11-01")
    answers = [("gpu1", report(later, by=By.DAY)), ("gpu2", report(earlier, later, by=By.DAY))]
    found = added_up(answers, "day")["lines"]
    assert [(each["day"], each["idle_s"]) for each in found] == [("2026-11-01", 1), ("2026-11-02", 18)]


def test_money_is_added_up_only_where_it_is_known_and_of_one_currency() -> None:
    one = ("gpu1", report(line(10, 1.5, user="alice"), currency="USD"))
    assert added_up([one, one], "user")["total"]["cost"] == 3.0
    euros = ("gpu2", report(line(10, 1.5, user="alice"), currency="EUR"))
    assert added_up([one, euros], "user")["total"]["cost"] is None
    free = ("gpu2", report(line(10, user="alice"), currency="USD"))
    assert added_up([one, free], "user")["total"]["cost"] is None


@pytest.mark.parametrize(
    "lines", [None, [{"user": "alice"}], *([line(each, user="a")] for each in (-1, float("nan"), True, "1"))]
)
def test_what_is_no_report_is_refused(lines: object) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        host_report({"lines": lines, "currency": None}, NAME_FIELDS[By.USER])


def test_words_of_other_hosts_are_printable_short_and_no_formula(capsys: pytest.CaptureFixture[str]) -> None:
    job = line(1, job="=cmd()", user="\x1b[2J" + "x" * 500)
    about = {
        "by": "job",
        "hosts": [{"error": None}],
        "since": "2026-11-01T00:00:00Z",
        "until": "2026-11-08T00:00:00Z",
    }
    found = about | added_up([("=b()", report(job, by=By.JOB))], "job")
    (row,) = csv.DictReader(io.StringIO(as_csv(found)))
    assert (row["job"], row["host"], row["cost"], row["energy_j"]) == ("'=cmd()", "'=b()", "", "")
    assert len(row["user"]) <= 200
    show_table(found)
    assert "\x1b" not in row["user"] + capsys.readouterr().out
