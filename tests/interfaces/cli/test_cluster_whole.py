"""`fallow up` with [cluster] on a real Slurm and a real Prometheus: status, why, idle, protect, stop and report."""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Fallow
from tests.ports import free_ports
from tests.real_prometheus import Exporter, Prometheus, profiled_gpu
from tests.real_slurm import Slurm
from tests.waiting import PROGRAM_S, until

pytestmark = pytest.mark.engine

(PAGE,) = free_ports(1)
CONFIG = """
[cluster]
engine = "slurm"
prometheus = "{prometheus}"
metrics = "dcgm"
scrape_interval = "3s"
every = "1s"

[[cluster.idle]]
name = "idle-gpus"
idle_for = "1h"
"""


@pytest.fixture
def prometheus(tmp_path: pathlib.Path) -> Iterator[Prometheus]:
    """All four GPUs of n1 idle, those of n2 busy."""
    loads = [("n1", 0), ("n2", 90)]
    exporter = Exporter("".join(profiled_gpu(node, index, load) for node, load in loads for index in range(4)))
    made = Prometheus(tmp_path / "prometheus", {"dcgm": [exporter.address], "fallow": [f"127.0.0.1:{PAGE}"]})
    made.scrapes("dcgm", 3)
    yield made
    made.close()
    exporter.close()


def told(fallow: Fallow, *words: str) -> dict[str, Any]:
    done = fallow("status", "--cluster", *words, "--json")
    facts: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {"jobs": [], "said": done.stderr}
    return facts


def lines_of(fallow: Fallow, by: str) -> dict[str, Any]:
    report = json.loads(fallow("report", "--cluster", "--by", by, "--price", "2/h", "--format", "json").stdout)
    return {line["name"]: line for line in report["lines"]}


def test_a_cluster_is_shown_explained_protected_stopped_and_reported(
    slurm: Slurm, prometheus: Prometheus, simulated: Fallow
) -> None:
    simulated.environ |= {"SLURM_CONF": slurm.environ["SLURM_CONF"]}
    simulated.environ["PATH"] += ":/usr/sbin:/sbin"
    idle = slurm.running("--gres=gpu:2", "--nodelist=n1", "--account=vision", user="games")
    busy = slurm.running("--gres=gpu:3", "--nodelist=n2", user="news")
    config = simulated.home / "fallow.toml"
    config.write_text(CONFIG.format(prometheus=prometheus.url))
    simulated.environ["FALLOW_CONFIG"] = str(config)
    simulated.start("up", "--listen", f"127.0.0.1:{PAGE}")

    seen = until(
        lambda: told(simulated),
        lambda facts: [job["idle_s"] > 0 for job in facts["jobs"]] == [True, False] and not facts["troubles"],
        pause_s=PROGRAM_S,
    )
    assert [(job["key"], job["activity"]) for job in seen["jobs"]] == [
        (f"slurm:{idle}", "idle"),
        (f"slurm:{busy}", "busy"),
    ]
    assert (seen["free_gpus"], seen["idle_gpus"], seen["busy_gpus"], seen["total_gpus"]) == (3, 2, 3, 8)
    assert simulated("status", "--cluster").stdout.startswith("Slurm: 3 of 8 GPUs free, 2 held and idle in 1 job")
    assert f"slurm:{idle}" in simulated("why", f"slurm:{idle}").stdout
    assert simulated("idle", f"slurm:{idle}").returncode == 0
    assert simulated("idle", f"slurm:{busy}").returncode == 1

    assert simulated("protect", f"slurm:{idle}", "--for", "1h", "--why", "needed").returncode == 0
    left = until(
        lambda: told(simulated, f"slurm:{idle}"), lambda now: now["jobs"][0]["left_alone"], pause_s=PROGRAM_S
    )
    assert "needed" in left["jobs"][0]["left_alone"]
    kept = simulated("stop", f"slurm:{idle}", "--yes")
    assert (kept.returncode, slurm.state(idle)) == (1, "RUNNING"), kept.stderr

    planned = simulated("stop", f"slurm:{busy}", "--dry-run")
    assert f"scancel --signal=TERM --full {busy}" in planned.stdout, planned.stderr
    assert slurm.state(busy) == "RUNNING"
    stopped = simulated("stop", f"slurm:{busy}", "--yes", "--grace", "5s")
    assert stopped.returncode == 0, stopped.stderr
    assert f"stopped news's slurm:{busy}" in stopped.stdout
    assert slurm.state(busy) != "RUNNING"
    assert "stopped by hand by" in simulated("why", f"slurm:{busy}").stdout

    hours = until(
        lambda: lines_of(simulated, "user"), lambda found: {"games", "news"} <= found.keys(), pause_s=PROGRAM_S
    )
    assert hours["games"]["idle_s"] > 0
    assert hours["games"]["cost"] > 0
    assert hours["news"]["idle_s"] == 0
    assert [name for name, line in lines_of(simulated, "account").items() if line["idle_s"] > 0] == ["vision"]
    assert lines_of(simulated, "node")["n1"]["free_s"] > 0
