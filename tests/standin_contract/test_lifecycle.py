"""Starting the library, ending it, and what it needs."""

import pathlib

import pynvml
import pytest

from tests.standin import World

from . import raw
from .remote import Reader, code_of


def test_a_call_before_the_library_is_started_is_answered_uninitialized(reader: Reader) -> None:
    assert code_of(reader.nvmlDeviceGetCount) == pynvml.NVML_ERROR_UNINITIALIZED
    assert reader.run(raw.code, "nvmlDeviceGetCount_v2", None, raw.NULL) == (pynvml.NVML_ERROR_UNINITIALIZED)
    assert code_of(reader.nvmlShutdown) == pynvml.NVML_ERROR_UNINITIALIZED


def test_the_library_ends_when_it_was_ended_as_often_as_started(reader: Reader) -> None:
    reader.nvmlInit()
    reader.nvmlInit()
    reader.nvmlShutdown()
    assert reader.nvmlDeviceGetCount() == 8
    reader.nvmlShutdown()
    assert code_of(reader.nvmlDeviceGetCount) == pynvml.NVML_ERROR_UNINITIALIZED


def test_a_world_may_let_the_start_fail_with_any_error(reader: Reader, world: World) -> None:
    world.init_error = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    assert code_of(reader.nvmlInit) == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    assert code_of(reader.nvmlDeviceGetCount) == pynvml.NVML_ERROR_UNINITIALIZED
    world.init_error = 0
    reader.nvmlInit()


def test_without_a_world_no_driver_is_loaded(reader: Reader) -> None:
    reader.run(raw.forget_world)
    assert code_of(reader.nvmlInit) == pynvml.NVML_ERROR_DRIVER_NOT_LOADED


@pytest.mark.parametrize("content", [b"", b"not a world", None])
def test_a_file_that_is_no_world_is_no_driver(
    reader: Reader, world: World, tmp_path: pathlib.Path, content: bytes | None
) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(bytes(world.path.stat().st_size) if content is None else content)
    reader.run(raw.use_world, str(bad))
    assert code_of(reader.nvmlInit) == pynvml.NVML_ERROR_DRIVER_NOT_LOADED


def test_a_forked_child_has_to_start_the_library_itself(nvml: Reader) -> None:
    assert nvml.run(raw.in_a_forked_child) == [
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_SUCCESS,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_SUCCESS,
    ]


def test_an_error_has_a_text_before_the_library_is_started(reader: Reader) -> None:
    assert reader.nvmlErrorString(pynvml.NVML_ERROR_GPU_IS_LOST) == "GPU is lost"
    assert reader.nvmlErrorString(12345) == "Unknown Error"


def test_the_versions_of_driver_and_library_are_told(nvml: Reader, world: World) -> None:
    assert nvml.nvmlSystemGetDriverVersion() == "580.159.04"
    assert nvml.nvmlSystemGetNVMLVersion() == "13.580.159.04"
    assert nvml.nvmlSystemGetCudaDriverVersion_v2() == 13000
    world.driver_version = "999.1"
    assert nvml.nvmlSystemGetDriverVersion() == "999.1"


def test_a_process_has_a_name_while_it_lives(nvml: Reader) -> None:
    assert "python" in nvml.nvmlSystemGetProcessName(nvml.pid)
    gone = code_of(lambda: nvml.nvmlSystemGetProcessName(2**22 + 1))
    assert gone == pynvml.NVML_ERROR_NOT_FOUND
