"""`fallow report --cluster`: what Prometheus has of the cluster's hours, in all formats, with a price."""

import csv
import io
import json
import pathlib
from urllib.parse import parse_qs, urlsplit

import pytest

from fallow.core.http import HttpAnswer
from fallow.core.money import Prices
from fallow.core.unknown import Unknown
from fallow.engine.answers.cluster_report import ClusterReport, report_of
from fallow.interfaces.render.cluster_report import as_csv, as_html, as_json, show_table
from fallow.readers.prometheus.gpu_seconds import gpu_seconds
from tests.conftest import Fallow

FOUND = {
    "bob": {"busy": 10_800.0, "unknown": 600.0},
    "ada": {"idle": 7200.0, "busy": 1800.0},
    "=games": {"filled": 7200.0},
    "": {"busy": 1.0},
}


def report(price: float | None = 2.0) -> ClusterReport:
    return report_of("user", 0.0, 86_400.0, Prices(price, currency="$"), FOUND)


def test_the_most_wasteful_come_first_and_idle_hours_alone_cost() -> None:
    found = json.loads(as_json(report()))
    assert [line["name"] for line in found["lines"]] == ["ada", "bob", "-", "=games"]
    ada, bob, _, games = found["lines"]
    assert (ada["idle_s"], ada["observed_s"], ada["cost"]) == (7200.0, 9000.0, 4.0)
    assert (bob["unknown_s"], bob["cost"], games["filled_s"], games["cost"]) == (600.0, 0.0, 7200.0, 0.0)
    assert (found["total"]["name"], found["total"]["cost"], found["currency"]) == ("all", 4.0, "$")
    without = json.loads(as_json(report(None)))["total"]
    assert (without["cost"], list(without["unknown"])) == (None, ["cost"])


def test_a_table_csv_and_a_page_have_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(report())
    title, head, first, *_, last = capsys.readouterr().out.splitlines()
    assert title == "GPU hours of the cluster by user, 1970-01-01 00:00 to 1970-01-02 00:00 UTC"
    assert head.split() == ["user", "filled", "busy", "idle", "unknown", "observed", "cost"]
    assert first.split() == ["ada", "0", "30m", "2.0h", "0", "2.5h", "$4.00"]
    assert last.split()[0] == "all"
    rows = list(csv.DictReader(io.StringIO(as_csv(report()))))
    assert [row["user"] for row in rows] == ["ada", "bob", "-", "'=games"], "no spreadsheet takes it for a formula"
    assert (rows[0]["idle_s"], rows[0]["cost"], rows[0]["until"]) == (
        "7200.0",
        "4.0",
        "1970-01-02T00:00:00.000+00:00",
    )
    assert "<td>ada</td>" in as_html(report())


def test_prometheus_is_asked_for_the_increase_over_the_whole_span() -> None:
    asked: list[dict[str, list[str]]] = []

    def ask(_: str, target: str, *__: object) -> HttpAnswer:
        asked.append(parse_qs(urlsplit(target).query))
        samples = [({"state": "busy", "node": "n1"}, "5.5"), ({"state": "idle", "node": "n1"}, "NaN")]
        result = [{"metric": labels, "value": [1, number]} for labels, number in samples]
        body = {"status": "success", "data": {"resultType": "vector", "result": result}}
        return HttpAnswer(200, json.dumps(body).encode())

    assert gpu_seconds(ask, "node", 100.0, 200.5) == {"n1": {"busy": 5.5}}
    query = "sum by (node, state) (increase(fallow_cluster_node_gpu_seconds_total[101s]))"
    assert asked == [{"query": [query], "time": ["200.500"]}]
    assert isinstance(gpu_seconds(lambda *_: Unknown("it is away"), "user", 0.0, 1.0), Unknown)


def test_without_a_prometheus_that_answers_it_says_so(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    assert "there is no config" in simulated("report", "--cluster").stderr
    config = tmp_path / "fallow.toml"
    for line, code, says in (
        ("", 2, "the config names no Prometheus"),
        ('prometheus = "http://127.0.0.1:1"', 125, "what the cluster did cannot be read: http://127.0.0.1:1"),
    ):
        config.write_text(f'[cluster]\nengine = "slurm"\n{line}\n')
        done = simulated("report", "--cluster", FALLOW_CONFIG=str(config))
        assert (done.returncode, says in done.stderr) == (code, True), done.stderr


def test_a_kind_of_the_other_report_is_refused_with_a_way(simulated: Fallow) -> None:
    assert "needs --cluster" in simulated("report", "--by", "node").stderr
    assert "write node, partition" in simulated("report", "--cluster", "--by", "gpu").stderr
