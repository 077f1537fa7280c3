"""Our binding of the driver's library has the same numbers and structs as NVIDIA's."""

import ctypes
import subprocess
import sys

import pynvml
import pytest

from fallow.readers import nvml_library
from tests.conftest import Fallow
from tests.standin import Process, World

CONSTANTS = [name for name in dir(nvml_library) if name.startswith("NVML_")]
STRUCTS = {
    nvml_library.Utilization: pynvml.c_nvmlUtilization_t,
    nvml_library.MemoryInfo: pynvml.c_nvmlMemory_v2_t,
    nvml_library.ProcessInfo: pynvml.c_nvmlProcessInfo_v2_t,
    nvml_library.Sample: pynvml.c_nvmlSample_t,
    nvml_library.ProcessSample: pynvml.c_nvmlProcessUtilizationSample_t,
    nvml_library.c_nvmlGpmMetricsGet_t: pynvml.c_nvmlGpmMetricsGet_t,
    nvml_library.GpmSupport: pynvml.c_nvmlGpmSupport_t,
}


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


LISTS = """
from fallow.readers import nvml_library as library
library.load()
library.run("nvmlInit_v2")
card = library.pointer("nvmlDeviceGetHandleByIndex_v2", 0)
listed = library.processes("nvmlDeviceGetComputeRunningProcesses_v3", card)
print([(each.pid, each.usedGpuMemory) for each in listed])
"""


@pytest.mark.parametrize("count", [0, 8, 9, 64])
def test_processes_are_listed_however_many_they_are(world: World, fallow: Fallow, count: int) -> None:
    world[0].compute = [Process(100 + at, 2**30 + at) for at in range(count)]
    words = [sys.executable, "-c", LISTS]
    told = subprocess.run(words, env=fallow.environ, capture_output=True, text=True, check=True).stdout
    assert told == f"{[(100 + at, 2**30 + at) for at in range(count)]}\n"
