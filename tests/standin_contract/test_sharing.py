"""One world, many processes."""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

from tests.places import LIMIT_S
from tests.standin import CUDA_SONAME, SONAME, Process, World, build
from tests.waiting import until

from . import raw
from .remote import Reader


def test_sixty_four_readers_never_see_half_a_list(reader: Reader, world: World, tmp_path: pathlib.Path) -> None:
    world[0].name = "aaaa"
    stop = tmp_path / "stop"
    with concurrent.futures.ThreadPoolExecutor() as executor:
        answer = executor.submit(reader.run, raw.many_readers, 64, str(stop))
        changes = 0
        while world.calls("nvmlDeviceGetComputeRunningProcesses") < 64 * 200 and not answer.done():
            changes += 1
            number = 100_000 + changes % 1000
            world[0].compute = [Process(pid=number, memory_bytes=number)] * (number % 64 + 1)
            world[0].name = "abcdefgh"[changes % 8] * (changes % 90 + 1)
        stop.touch()
        assert answer.result(timeout=LIMIT_S) == [0] * 64
    assert world.calls("nvmlInit") == 64
    assert changes > 0


def test_a_reader_waits_while_a_name_is_being_changed(nvml: Reader, world: World) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    with concurrent.futures.ThreadPoolExecutor() as executor:
        with world[0].writing():
            world[0].raw.name = b"half"
            answer = executor.submit(nvml.nvmlDeviceGetName, handle)
            until(lambda: world.calls("nvmlDeviceGetName") == 1)
            world[0].raw.name = b"whole"
        assert answer.result(timeout=LIMIT_S) == "whole"


def test_a_reader_waits_while_a_list_is_being_changed(nvml: Reader, world: World) -> None:
    name = "nvmlDeviceGetComputeRunningProcesses_v3"
    with concurrent.futures.ThreadPoolExecutor() as executor:
        with world[0].writing():
            world[0].raw.compute.count = 2
            world[0].raw.compute.item[0].pid = 1
            answer = executor.submit(nvml.run, raw.process_list, name, 0, 8)
            until(lambda: world.calls(name) == 1)
            world[0].raw.compute.item[1].pid = 2
        assert answer.result(timeout=LIMIT_S) == [0, 2, [1, 2]]


def test_a_world_may_be_driven_from_several_processes(nvml: Reader, world: World, library: pathlib.Path) -> None:
    drive = f"""
from tests.standin import World, Process
world = World.attach({str(world.path)!r})
world[5].utilization = 77
for i in range(50):
    world[5].compute = [Process(pid=i + 1, memory_bytes=i)]
world.fault("nvmlDeviceGetPowerUsage", card=6, error=999)
"""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environ = {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen([sys.executable, "-c", drive], env=environ) as process:
        for i in range(50):
            world[5].graphics = [Process(pid=i + 1)]
        assert process.wait(timeout=LIMIT_S) == 0
    handle = nvml.nvmlDeviceGetHandleByIndex(5)
    assert nvml.nvmlDeviceGetUtilizationRates(handle).gpu == 77
    assert [p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses(handle)] == [50]
    assert [p.pid for p in nvml.nvmlDeviceGetGraphicsRunningProcesses(handle)] == [50]
    world.heal(1)
    assert nvml.nvmlDeviceGetPowerUsage(nvml.nvmlDeviceGetHandleByIndex(6)) == 83_000


def test_who_may_only_read_the_world_reads_it_uncounted(reader: Reader) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = pathlib.Path(folder) / "world"
        with World.create(path, cards=5) as world:
            os.chmod(path, 0o444)
            assert reader.run(raw.without_write_access, str(path)) == 5
            assert world.calls("nvmlDeviceGetCount") == 0


def test_a_list_left_half_written_by_a_killed_driver_is_mended_by_the_next(nvml: Reader, world: World) -> None:
    world[0].raw.sequence |= 1
    world[0].compute = [Process(pid=3)]
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    assert [p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses(handle)] == [3]


def test_any_user_may_write_a_world(world: World) -> None:
    assert world.path.stat().st_mode & 0o777 == 0o666


def test_only_a_world_can_be_attached_to(tmp_path: pathlib.Path, world: World) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(bytes(world.path.stat().st_size))
    with pytest.raises(ValueError, match="not a world"):
        World.attach(bad)
    bad.write_bytes(b"short")
    with pytest.raises(ValueError, match="not a world"):
        World.attach(bad)
    for cards in (0, 65):
        with pytest.raises(ValueError, match="1 to 64"):
            World.create(bad, cards=cards)


def test_the_libraries_are_built_once(library: pathlib.Path) -> None:
    before = {path.name: path.stat() for path in library.iterdir()}
    assert build(library) == library
    after = {path.name: path.stat() for path in library.iterdir()}
    assert {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in before.items()} == {
        name: (stat.st_ino, stat.st_mtime_ns) for name, stat in after.items()
    }
    assert set(after) == {SONAME, CUDA_SONAME}
