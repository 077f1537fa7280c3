"""Tools that people use read the cards through the stand-in as through the real library."""

import json
import os
import pathlib
import subprocess
import sys

from tests.standin import MigInstance, Process, World


def _load(world: World) -> None:
    for index, card in enumerate(world):
        card.utilization = 10 * index
        card.memory_used = (index + 1) * 2**30
        card.power_mw = 100_000 + 1000 * index
        card.temperature_c = 40 + index
    world[3].compute = [Process(pid=os.getpid(), memory_bytes=2**30)]


def test_gpustat_reads_every_card(world: World, library: pathlib.Path) -> None:
    _load(world)
    done = subprocess.run(
        [sys.executable, "-m", "gpustat", "--json"],
        env={**os.environ, **world.environ(library)},
        capture_output=True,
        text=True,
        check=True,
    )
    shown = json.loads(done.stdout)
    assert shown["driver_version"] == world.driver_version
    assert [
        (
            gpu["uuid"],
            gpu["utilization.gpu"],
            gpu["memory.used"],
            gpu["memory.total"],
            gpu["power.draw"],
            gpu["enforced.power.limit"],
            gpu["temperature.gpu"],
            gpu["fan.speed"],
        )
        for gpu in shown["gpus"]
    ] == [(card.uuid, 10 * i, 1024 * (i + 1), 80 * 1024, 100 + i, 700, 40 + i, None) for i, card in enumerate(world)]
    assert [(p["pid"], p["gpu_memory_usage"]) for p in shown["gpus"][3]["processes"]] == [(os.getpid(), 1024)]


NVITOP = """
import json, nvitop
shown = []
for d in nvitop.Device.all():
    shown.append([d.uuid(), d.name(), d.gpu_utilization(), d.memory_used(), d.memory_total(),
                  d.power_usage(), d.power_limit(), d.temperature(), d.bus_id(),
                  str(d.fan_speed()), sorted(d.processes()), d.is_mig_mode_enabled(),
                  [[m.uuid(), m.memory_total(), m.gpu_instance_id()] for m in d.mig_devices()]])
print(json.dumps(shown))
"""


def test_nvitop_reads_every_card(world: World, library: pathlib.Path) -> None:
    _load(world)
    world[7].mig = [MigInstance(uuid="MIG-x", gpu_instance=4), None]
    done = subprocess.run(
        [sys.executable, "-c", NVITOP],
        env={**os.environ, **world.environ(library)},
        capture_output=True,
        text=True,
        check=True,
    )
    expected = [
        [
            card.uuid,
            card.name,
            10 * i if i != 7 else "N/A",
            (i + 1) * 2**30,
            80 * 2**30,
            100_000 + 1000 * i,
            700_000,
            40 + i,
            card.pci_bus_id,
            "N/A",
            [os.getpid()] if i == 3 else [],
            i == 7,
            [["MIG-x", 10 * 2**30, 4]] if i == 7 else [],
        ]
        for i, card in enumerate(world)
    ]
    assert json.loads(done.stdout) == expected
