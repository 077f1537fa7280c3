"""Metrics: each is documented, in base units, and silent where nothing is known; the dashboard asks for no other."""

import json
import pathlib
import re
import shutil
import subprocess
import time

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from fallow.core.activity import Activity
from fallow.core.board import Board
from fallow.core.money import Prices
from fallow.core.owner import Owner, OwnerKind
from fallow.core.value import replace
from fallow.interfaces.render.metrics import exposed
from fallow.policies.guard import Phase
from tests.interfaces.web.boards import process, varied
from tests.interfaces.web.served import hall, served
from tests.places import LIMIT_S, REPOSITORY

REFERENCE = (REPOSITORY / "docs" / "reference" / "metrics.md").read_text()
EXAMPLES = REPOSITORY / "src" / "fallow" / "examples"
DASHBOARD, ALERTS = EXAMPLES / "grafana.json", EXAMPLES / "alerts.yml"


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Metric]:
    with served(hall(with_energy_and_prices), tmp_path_factory.mktemp("metrics")) as site:
        answer = site.ask("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {family.name: family for family in text_string_to_metric_families(answer.text)}


def with_energy_and_prices(wall_s: float) -> Board:
    """A machine on which a lot goes on, with energy and a price."""
    made = varied(wall_s)
    prices = Prices(named=(("H100", 2.5),), currency="USD")
    energy_j = {str(made.status.gpus[0].uuid): 7.5e6}
    return replace(made, prices=prices, counts=replace(made.counts, energy_j=energy_j))


def value(families: dict[str, Metric], name: str, **labels: str) -> list[float]:
    found = [sample for family in families.values() for sample in family.samples if sample.name == name]
    return [one.value for one in found if labels.items() <= one.labels.items()]


def documented() -> dict[str, tuple[str, set[str]]]:
    """Name, type and labels of each row of the reference."""
    rows = re.findall(r"^\| `(fallow\w+)` \| (\w+) \|([^|]*)\|", REFERENCE, re.MULTILINE)
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def test_every_metric_is_in_the_reference_with_its_type_and_labels(families: dict[str, Metric]) -> None:
    shown = {}
    for family in families.values():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        shown[name] = (family.type, labels)
        assert family.documentation
    assert shown == documented()


def test_the_numbers_are_those_of_the_board(families: dict[str, Metric]) -> None:
    assert value(families, "fallow_gpu_activity", gpu="1", activity="idle") == [1.0]
    assert value(families, "fallow_gpu_activity", gpu="1", activity="busy") == [0.0]
    assert value(families, "fallow_gpu_activity", gpu="3", activity="filled") == [1.0]  # F9
    assert value(families, "fallow_gpus_available") == [3.0]
    assert value(families, "fallow_gpu_utilization_ratio", gpu="0") == [0.94]
    assert value(families, "fallow_gpu_power_watts", gpu="0") == [611.0]
    assert value(families, "fallow_gpu_memory_total_bytes", gpu="0") == [80 * 2**30]
    assert value(families, "fallow_activity_seconds_total", user="bob", activity="idle") == [9240.5]
    assert value(families, "fallow_actions_total", action="ask", outcome="refused") == [2.0]
    assert value(families, "fallow_filler_places", filler="folding", phase="yielding") == [1.0]
    buckets = value(families, "fallow_yield_duration_seconds_bucket", filler="folding")
    assert buckets == sorted(buckets)
    assert buckets[-1] == 19.0
    assert value(families, "fallow_yield_duration_seconds_sum", filler="folding") == [5.7]


def test_energy_price_and_claims_are_told_of_the_gpus_of_which_they_are_known(families: dict[str, Metric]) -> None:
    assert value(families, "fallow_gpu_energy_joules_total") == [7.5e6]
    assert value(families, "fallow_gpu_price_per_hour", gpu="0", currency="USD") == [2.5]
    assert value(families, "fallow_gpu_claimed", gpu="4") == [1.0]
    without = exposed(replace(varied(0.0), prices=Prices()), 0, "")[0].decode()
    assert "fallow_gpu_price_per_hour{" not in without
    assert "fallow_gpu_energy_joules_total{" not in without


def test_what_is_held_is_told_by_user_and_owner_and_a_notebook_has_no_name(families: dict[str, Metric]) -> None:
    held = {
        (sample.labels["user"], sample.labels["owner_kind"], sample.labels["owner"])
        for sample in families["fallow_holder_memory_bytes"].samples
    }
    assert {("ada", "slurm", "90117"), ("carol", "container", "ddp-train"), ("bob", "notebook", "")} <= held


def test_a_crowd_of_owners_has_no_more_than_500_series() -> None:
    crowd = tuple(
        process(pid, "ada", "python", 1.0, owner=Owner(OwnerKind.CONTAINER, f"{pid:064x}", f"c{pid}"))
        for pid in range(900)
    )
    few = varied(0.0)
    crowded = replace(few, status=replace(few.status, gpus=(replace(few.status.gpus[0], holders=crowd),)))
    text = exposed(crowded, 0, "")[0].decode()
    assert text.count("\nfallow_holder_idle_seconds{") == 500


def test_a_guard_is_in_one_phase_and_what_is_not_known_is_not_told(families: dict[str, Metric]) -> None:
    phases = {phase: value(families, "fallow_guard_phase", guard="weekend", phase=phase) for phase in Phase}
    assert phases == {phase: [1.0 if phase is Phase.ARMED else 0.0] for phase in Phase}
    for name in ("power_watts", "temperature_celsius", "utilization_ratio", "memory_used_bytes", "holders"):
        assert value(families, f"fallow_gpu_{name}", gpu="5") == [], "a lost card has no reading, not a zero"
    assert value(families, "fallow_gpu_activity", gpu="5", activity="unknown") == [1.0]
    assert value(families, "fallow_unknown_readings_total", reading="holders", reason="pid N is gone") == [3.0]


@pytest.mark.parametrize("activity", [Activity.IDLE, Activity.UNKNOWN])
def test_who_holds_a_gpu_for_an_unknown_time_has_not_held_it_for_no_time(activity: Activity) -> None:
    made = varied(time.time())
    for_s = None if activity is Activity.IDLE else 310.0
    gpu = replace(made.status.gpus[1], activity=activity, for_s=for_s)
    board = replace(made, status=replace(made.status, gpus=(gpu,)))
    text = exposed(board, 0, "")[0].decode()
    assert "\nfallow_holder_memory_bytes{" in text
    assert "\nfallow_holder_idle_seconds{" not in text


def test_those_who_ask_for_openmetrics_get_it() -> None:
    board = varied(time.time())
    body, kind = exposed(board, 3, "application/openmetrics-text; version=1.0.0")
    assert "openmetrics" in kind
    assert {family.name for family in openmetrics(body.decode())} >= {"fallow_gpu_activity", "fallow_actions"}


def test_the_dashboard_asks_for_nothing_that_is_not_there() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    asked += [
        variable["query"]["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"
    ]
    assert len(asked) > 10
    known = documented()
    used = set()
    for query in asked:
        for name in re.findall(r"\bfallow_\w+", query):
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            family = base if known.get(base, ("",))[0] == "histogram" else name
            assert family in known, query
            used.add(family)
        for name, labels in re.findall(r"\b(fallow_\w+)\{([^}]*)\}", query):
            wanted = set(re.findall(r"(\w+)\s*=~?", labels)) - {"instance", "job"}
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            assert wanted <= (known.get(name) or known[base])[1] | {"le"}, query
    assert used >= {"fallow_gpu_activity", "fallow_activity_seconds_total", "fallow_yield_duration_seconds"}
    assert used >= {"fallow_gpu_claimed", "fallow_gpu_price_per_hour", "fallow_gpu_energy_joules_total"}
    assert "fallow_holder_memory_bytes" in used, "holders by owner"
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))


def test_the_dashboard_has_a_row_for_each_machine_and_no_two_panels_in_one_place() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    repeated = [panel for panel in dashboard["panels"] if panel.get("repeat")]
    assert [(panel["type"], panel["repeat"]) for panel in repeated] == [("row", "instance")]
    taken = set()
    for place in (panel["gridPos"] for panel in dashboard["panels"]):
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert max(x for x, _ in cells) < 24
        assert taken.isdisjoint(cells)
        taken |= cells


@pytest.mark.engine
def test_promtool_reads_every_question_of_the_dashboard_and_adds_up_costs_by_machine(tmp_path: pathlib.Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    panels = json.loads(DASHBOARD.read_text())["panels"]
    asked = [target["expr"].replace("$instance", ".*") for panel in panels for target in panel.get("targets", [])]
    rules = [{"record": f"asked:{number}", "expr": expr} for number, expr in enumerate(asked)]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    cost = next(expr for expr in asked if expr.startswith("sum by (instance, currency)"))
    series = []
    for host, price in (("gpu1", 2), ("gpu2", 3)):
        names = f'job="fallow", instance="{host}", gpu="0", uuid="GPU-{host}"'
        spent = f'fallow_activity_seconds_total{{{names}, activity="idle", user="ada"}}'
        series.append({"series": spent, "values": "0+60x1440"})
        series.append({"series": f'fallow_gpu_price_per_hour{{{names}, currency="USD"}}', "values": f"{price}x1440"})
    told = [
        {"labels": f'{{instance="{host}", currency="USD"}}', "value": value}
        for host, value in (("gpu1", 48), ("gpu2", 72))
    ]
    test = {"interval": "1m", "input_series": series}
    test["promql_expr_test"] = [{"expr": f"round({cost}, 0.1)", "eval_time": "24h", "exp_samples": told}]
    (tmp_path / "test.yml").write_text(json.dumps({"rule_files": ["rules.yml"], "tests": [test]}))
    for words in (("check", "rules", "rules.yml"), ("test", "rules", "test.yml")):
        done = subprocess.run(
            [str(promtool), *words], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "words", [("check", str(ALERTS)), ("test", str(pathlib.Path(__file__).parent / "alerts.test.yml"))]
)
@pytest.mark.engine
def test_promtool_finds_that_the_alerts_are_right_and_fire_when_they_should(words: tuple[str, str]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    command = [str(promtool), words[0], "rules", words[1]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_alerts_ask_only_for_metrics_that_are_in_the_reference_which_names_each_alert() -> None:
    text = "".join(line for line in ALERTS.read_text().splitlines(keepends=True) if not line.lstrip().startswith("#"))
    assert set(re.findall(r"\bfallow_\w+", text)) <= documented().keys()
    alerts = re.findall(r"alert: (\w+)", text)
    assert len(alerts) == 5
    assert all(f"| `{alert}` |" in REFERENCE for alert in alerts)
