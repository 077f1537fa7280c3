"""The dashboard for Grafana, asked of a real Prometheus that reads fallow's own metrics of two machines."""

import json
import pathlib
import re
import time

import pytest

from fallow.interfaces.render.metrics import exposed
from tests.interfaces.web.test_metrics import DASHBOARD, with_energy_and_prices
from tests.real_prometheus import Exporter, Prometheus

pytestmark = pytest.mark.engine


def told() -> str:
    """What fallow tells Prometheus of a machine on which a lot goes on."""
    board = with_energy_and_prices(time.time())
    return exposed(board, 0, "")[0].decode()


def later(text: str) -> str:
    """The same machine, on which all that is counted has gone on."""
    counted = re.compile(r"^(\w+(?:_total|_bucket|_sum|_count)(?:\{.*\})?) (\S+)$", re.MULTILINE)
    return counted.sub(lambda line: f"{line[1]} {float(line[2]) + 60}", text)


def test_every_panel_of_the_dashboard_has_data_of_both_machines(tmp_path: pathlib.Path) -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    asked = [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", [])]
    machines = [Exporter(told()), Exporter(told())]
    prometheus = Prometheus(tmp_path / "prometheus", {"fallow": [machine.address for machine in machines]})
    try:
        prometheus.scrapes("fallow", 2)
        for machine in machines:
            machine.text = later(machine.text)
        prometheus.scrapes("fallow", 5)
        chosen = "|".join(machine.address for machine in machines)
        empty = [title for title, expr in asked if not has_numbers(prometheus, expr.replace("$instance", chosen))]
        per_machine = [expr for _, expr in asked if "by (instance" in expr]
        both = [len(prometheus.found(expr.replace("$instance", ".*"))) for expr in per_machine]
        alone = prometheus.found(per_machine[0].replace("$instance", machines[0].address))
    finally:
        prometheus.close()
        for machine in machines:
            machine.close()
    assert len(asked) > 20
    assert empty == []
    assert both == [2] * len(per_machine)
    assert [found["metric"]["instance"] for found in alone] == [machines[0].address]


def has_numbers(prometheus: Prometheus, query: str) -> bool:
    """Whether a question is answered, and not only by what is no number."""
    return any(found["value"][1] != "NaN" for found in prometheus.found(query))
