"""gpustat and nvitop read the same driver, and agree with fallow on every healthy card."""

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import Fallow
from tests.standin import Process, World

GIB = 2**30
NVITOP = """
import json
from nvitop import Device
rows = []
for device in Device.all():
    rows.append({
        "uuid": device.uuid(),
        "name": device.name(),
        "utilization": device.gpu_utilization() / 100,
        "memory_used_bytes": device.memory_used(),
        "memory_total_bytes": device.memory_total(),
        "power_w": device.power_usage() / 1000,
        "temperature_c": device.temperature(),
        "pids": sorted(device.processes()),
    })
print(json.dumps(rows))
"""


def furnish(world: World) -> None:
    for index, card in enumerate(world):
        card.utilization = index * 11
        card.power_mw = 90_000 + index * 50_000
        card.temperature_c = 30 + index * 5
    world[2].compute = [Process(os.getpid(), 3 * GIB), Process(os.getppid(), GIB)]
    world[2].memory_used = 4 * GIB
    world[5].graphics = [Process(os.getpid(), GIB)]
    world[5].memory_used = GIB


def test_nvitop_agrees(world: World, fallow: Fallow) -> None:
    furnish(world)
    ours = json.loads(fallow("status", "--json").stdout)["gpus"]
    done = subprocess.run(
        [sys.executable, "-c", NVITOP], env=fallow.environ, capture_output=True, text=True, check=True
    )
    for mine, theirs in zip(ours, json.loads(done.stdout), strict=True):
        assert sorted(holder["pid"] for holder in mine["holders"]) == theirs.pop("pids")
        assert {name: mine[name] for name in theirs} == theirs


@pytest.mark.more
def test_gpustat_agrees_and_we_tell_more_where_it_fails(world: World, fallow: Fallow) -> None:
    furnish(world)
    ours = json.loads(fallow("status", "--json").stdout)["gpus"]
    done = subprocess.run(["gpustat", "--json"], env=fallow.environ, capture_output=True, text=True, check=True)
    for mine, theirs in zip(ours, json.loads(done.stdout)["gpus"], strict=True):
        assert mine["uuid"] == theirs["uuid"]
        assert mine["name"] == theirs["name"]
        assert round(mine["utilization"] * 100) == theirs["utilization.gpu"]
        assert mine["memory_total_bytes"] // 2**20 == theirs["memory.total"]
        assert mine["memory_used_bytes"] // 2**20 == theirs["memory.used"]
        assert mine["temperature_c"] == theirs["temperature.gpu"]
        assert round(mine["power_w"]) == theirs["power.draw"]
        assert sorted(holder["pid"] for holder in mine["holders"]) == sorted(
            row["pid"] for row in theirs["processes"]
        )
