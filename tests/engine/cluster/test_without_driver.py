"""The daemon of a cluster may run on a machine without GPUs, as a controller of Slurm or a pod."""

import pathlib

from tests.conftest import Fallow

CONFIG = """
[page]
enabled = false

[cluster]
engine = "slurm"
every = "1s"
"""


def test_a_daemon_with_a_cluster_runs_without_a_driver(driverless: Fallow, tmp_path: pathlib.Path) -> None:
    for name in ("scontrol", "squeue", "scancel"):  # a Slurm whose controller does not answer
        (tmp_path / name).write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    daemon = driverless.up(CONFIG, PATH=f"{tmp_path}:{driverless.environ['PATH']}")
    daemon.until("this machine has no GPUs of its own, and only the cluster is watched")
    daemon.until("up, with")
    daemon.until("Unable to contact slurm controller")
    machine = driverless("status", "--json")
    assert (machine.returncode, '"gpus": []' in machine.stdout) == (0, True), machine
    assert "Unable to contact slurm controller" in driverless("status", "--cluster").stdout


def test_a_daemon_without_a_cluster_needs_a_driver(driverless: Fallow) -> None:
    assert driverless("up").returncode == 69
