"""The CSV of a fleet: several hosts in a row, what is unknown is empty, and no word of others is a formula."""

import csv
import io

import pytest

from fallow.core.fleet import FleetBy
from fallow.engine.fleet.report import Told, added_up
from fallow.interfaces.render.fleet_report import as_csv

pytestmark = pytest.mark.more

SECONDS = (10.0, 1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0)


def told(host: str, name: tuple[str, ...], cost: float | None, currency: str = "$") -> Told:
    return Told(host, ((name, SECONDS, cost),), currency)


def rows(*hosts: Told, by: FleetBy) -> list[dict[str, str]]:
    found = {
        **added_up(hosts, by),
        "since": "2026-11-01T00:00:00.000+00:00",
        "until": "2026-11-08T00:00:00.000+00:00",
    }
    return list(csv.DictReader(io.StringIO(as_csv(found, by))))


def test_a_user_of_two_hosts_is_one_row_that_names_both() -> None:
    (row,) = rows(told("b", ("ada",), 2.0), told("a", ("ada",), 1.5), by="user")
    assert (row["user"], row["host"], row["observed_s"], row["cost"], row["currency"]) == (
        "ada",
        "a, b",
        "20.0",
        "3.5",
        "$",
    )
    assert (row["since"], row["until"]) == ("2026-11-01T00:00:00.000+00:00", "2026-11-08T00:00:00.000+00:00")


def test_what_is_unknown_is_empty() -> None:
    first, second = rows(told("a", ("0", "GPU-1", "H100"), 1.0), told("b", ("0", "GPU-2", "T4"), 1.0, "€"), by="gpu")
    assert [first["uuid"], second["uuid"]] == ["GPU-1", "GPU-2"]
    assert [row[name] for row in (first, second) for name in ("energy_j", "cost", "currency")] == [""] * 6


def test_no_word_of_another_host_is_a_formula() -> None:
    (row,) = rows(told("=b()", ("=cmd()", "@eve"), None), by="job")
    assert (row["job"], row["user"], row["host"]) == ("'=cmd()", "'@eve", "'=b()")


def test_no_word_is_a_formula_where_spreadsheets_part_cells_at_semicolons() -> None:
    names = ("a;=cmd|'/c calc'!A0;b", 'c; "+1"', "d;-2+3", "＝e;＠f")
    found = {**added_up([told("h", (name, "eve"), None) for name in names], "job"), "since": "s", "until": "u"}
    for apart in (",", ";"):
        cells = [cell for row in csv.reader(io.StringIO(as_csv(found, "job")), delimiter=apart) for cell in row]
        assert [
            cell for cell in cells if cell.lstrip('"').lstrip().startswith(("=", "+", "-", "@", "＝", "＠"))
        ] == []
