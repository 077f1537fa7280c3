"""All of it, real: Slurm, Prometheus and `fallow up`. An idle job is warned and cancelled; no other is touched."""

import pathlib

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill
from tests.real_prometheus import Exporter, Prometheus, profiled_gpu
from tests.real_slurm import Slurm
from tests.waiting import until

pytestmark = [pytest.mark.engine, pytest.mark.more, pytest.mark.timeout(180)]

CONFIG = """
[page]
enabled = false

[cluster]
engine = "slurm"
prometheus = "{url}"
metrics = "dcgm"
scrape_interval = "5s"
every = "2s"

[[cluster.idle]]
name = "idle"
act = true
idle_for = "12s"
warn_before = "6s"
grace = "2s"
"""
DEAF = "trap '' TERM; while :; do sleep 0.5; done"


def cards(node: str, *loads: int) -> str:
    """Return what the exporter of a node says of its GPUs."""
    return "".join(profiled_gpu(node, index, load) for index, load in enumerate(loads))


def test_an_idle_job_is_warned_then_cancelled_and_those_that_work_or_are_not_seen_go_on(
    slurm: Slurm, simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    output = slurm.folder / "out"
    output.touch()
    output.chmod(0o666)
    idle = slurm.running("--gres=gpu:2", f"--output={output}", line=DEAF)
    works = slurm.running("--gres=gpu:2", "--nodelist=n1", user="news")
    unseen = slurm.running("--gres=gpu:2", "--nodelist=n2", user="news")
    exporters = [Exporter(cards("n1", 0, 0, 90, 0)), Exporter(cards("n2", 0, 0, 0, 0))]
    prometheus = Prometheus(tmp_path / "prometheus", {"gpus": [each.address for each in exporters]})
    try:
        prometheus.scrapes("gpus", 3)
        exporters[1].vanish()
        config = tmp_path / "fallow.toml"
        config.write_text(CONFIG.format(url=prometheus.url))
        daemon = Fill(simulated.start("up", "--config", str(config), SLURM_CONF=str(slurm.conf)))
        until(output.read_text, lambda text: "it will be stopped in" in text, pause_s=0.2)
        assert f"fallow protect slurm:{idle}" in slurm.said("squeue", "--noheader", f"--jobs={idle}", "--format=%k")
        prometheus.stop()
        slurm.stop_controller()
        daemon.until("nothing is stopped until")
        slurm.start_controller()
        assert {slurm.state(job) for job in (idle, works, unseen)} == {"RUNNING"}
        prometheus.start()
        until(lambda: slurm.state(idle), lambda state: state == "CANCELLED", pause_s=0.3)
        daemon.until("was stopped")
        assert {slurm.state(job) for job in (works, unseen)} == {"RUNNING"}
        for job in (works, unseen):
            assert "fallow" not in slurm.said("squeue", "--noheader", f"--jobs={job}", "--format=%k")
        why = simulated("why", f"slurm:{idle}").stdout
        assert "scancel" in why
    finally:
        prometheus.close()
        for exporter in exporters:
            exporter.close()
