"""Our binding of the driver's library says what NVIDIA's says: the same numbers, structs, answers and errors."""

import ctypes
import json
import subprocess
import sys
from typing import Any

import pynvml
import pytest

from fallow.readers import nvml_library
from tests.conftest import Fallow
from tests.places import REPOSITORY
from tests.standin import MigInstance, Process, World

CONSTANTS = [name for name in dir(nvml_library) if name.startswith("NVML_")]
STRUCTS = {
    nvml_library.Utilization: pynvml.c_nvmlUtilization_t,
    nvml_library.MemoryInfo: pynvml.c_nvmlMemory_t,
    nvml_library.MemoryInfoV2: pynvml.c_nvmlMemory_v2_t,
    nvml_library.ProcessInfo: pynvml.c_nvmlProcessInfo_v2_t,
    nvml_library.Sample: pynvml.c_nvmlSample_t,
    nvml_library.ProcessSample: pynvml.c_nvmlProcessUtilizationSample_t,
    nvml_library.c_nvmlGpmMetricsGet_t: pynvml.c_nvmlGpmMetricsGet_t,
    nvml_library.GpmSupport: pynvml.c_nvmlGpmSupport_t,
}


def both(fallow: Fallow) -> tuple[dict[str, Any], dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.readers.both_bindings"],
        env=fallow.environ,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return told["ours"], told["theirs"]


def fill(world: World) -> None:
    """Cards as different as they come."""
    world[0].compute = [Process(100 + at, 2**30 + at) for at in range(9)]
    world[0].graphics = [Process(7, None)]
    world[0].utilization = 37
    for card in world:  # samples of their own, since those of an idle card go on with the clock
        card.samples = [(1_000_000 + 200_000 * at, at) for at in range(20)]
    world[0].process_samples = [(100, 3_000_000, 55, 4, 0, 0), (101, 3_000_001, 255, 4, 0, 0)]
    world[1].mig = [MigInstance(gpu_instance=7, processes=[Process(70, 700)], gpm={2: 31.0}), None]
    world[2].gpm = {2: 12.5, 3: 4.0, 5: 0.0, 10: 1.5}
    world[3].gpm = None
    world[4].mig_capable = False


def test_every_answer_is_nvidias(world: World, fallow: Fallow) -> None:
    fill(world)
    ours, theirs = both(fallow)
    assert ours == theirs
    assert ours["card 0"]["nvmlDeviceGetComputeRunningProcesses_v3"][8]["pid"] == 108


@pytest.mark.parametrize("error", [1, 2, 3, 4, 6, 7, 13, 15, 16, 999])
def test_every_error_is_nvidias(world: World, fallow: Fallow, error: int) -> None:
    fill(world)
    for name in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetUUID"):
        world.fault(name, card=2, error=error)
    for name in ("nvmlDeviceGetSamples", "nvmlDeviceGetProcessUtilization", "nvmlGpmSampleGet"):
        world.fault(name, card=0, error=error)
    ours, theirs = both(fallow)
    assert ours == theirs
    assert ours["card 2"]["nvmlDeviceGetUUID"] == {"error": error}


@pytest.mark.parametrize("error", [4, 9, 18, 999])
def test_a_driver_that_does_not_start_says_the_same_to_both(world: World, fallow: Fallow, error: int) -> None:
    world.fault("nvmlInit", error=error)
    assert both(fallow) == ({"init": error}, {"init": error})


def test_without_a_driver_both_say_that_there_is_no_library(driverless: Fallow) -> None:
    missing = nvml_library.NVML_ERROR_LIBRARY_NOT_FOUND
    assert both(driverless) == ({"init": missing}, {"init": missing})


@pytest.mark.parametrize("name", CONSTANTS)
def test_every_number_is_nvidias(name: str) -> None:
    assert getattr(nvml_library, name) == getattr(pynvml, name)


@pytest.mark.parametrize("ours", STRUCTS, ids=lambda struct: struct.__name__)
def test_every_struct_is_laid_out_as_nvidias(ours: type[ctypes.Structure]) -> None:
    theirs = STRUCTS[ours]

    def layout(struct: type[ctypes.Structure]) -> list[tuple[int, int]]:
        fields = (getattr(struct, field[0]) for field in struct._fields_)
        return [(field.offset, field.size) for field in fields]

    assert ctypes.sizeof(ours) == ctypes.sizeof(theirs)
    assert layout(ours) == layout(theirs)


def test_the_version_of_the_newer_memory_call_is_nvidias() -> None:
    assert nvml_library.nvmlMemory_v2 == pynvml.nvmlMemory_v2
