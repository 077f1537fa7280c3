"""How cards hang together."""

import pynvml

from tests.standin import World

from .remote import Reader, code_of

NVLINK = pynvml.NVML_P2P_CAPS_INDEX_NVLINK


def test_cards_are_far_apart_unless_linked(nvml: Reader, world: World) -> None:
    handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(len(world))]
    world.link(0, 5, nvlink=True, level=pynvml.NVML_TOPOLOGY_MULTIPLE)
    for one in range(len(world)):
        for other in range(len(world)):
            if one == other:
                continue
            level = nvml.nvmlDeviceGetTopologyCommonAncestor(handles[one], handles[other])
            status = nvml.nvmlDeviceGetP2PStatus(handles[one], handles[other], NVLINK)
            linked = {one, other} == {0, 5}
            assert level == (20 if linked else pynvml.NVML_TOPOLOGY_SYSTEM)
            assert (status == pynvml.NVML_P2P_STATUS_OK) == linked


def test_the_nearest_cards_are_those_within_a_level(nvml: Reader, world: World) -> None:
    world.link(0, 1, level=pynvml.NVML_TOPOLOGY_SINGLE)
    world.link(0, 2, level=pynvml.NVML_TOPOLOGY_NODE)
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    near = nvml.nvmlDeviceGetTopologyNearestGpus(handle, pynvml.NVML_TOPOLOGY_HOSTBRIDGE)
    assert [nvml.nvmlDeviceGetIndex(h) for h in near] == [1]


def test_a_call_on_two_cards_meets_the_faults_of_both(nvml: Reader, world: World) -> None:
    one, other = nvml.nvmlDeviceGetHandleByIndex(0), nvml.nvmlDeviceGetHandleByIndex(1)
    world.fault("*", card=1, error=pynvml.NVML_ERROR_GPU_IS_LOST)
    for pair in ((one, other), (other, one)):
        answer = code_of(lambda p=pair: nvml.nvmlDeviceGetTopologyCommonAncestor(*p))  # type: ignore[misc]
        assert answer == pynvml.NVML_ERROR_GPU_IS_LOST


def test_processors_and_memory_near_a_card_are_told(nvml: Reader, world: World) -> None:
    world[7].cpu_affinity = 1 << 70
    handle = nvml.nvmlDeviceGetHandleByIndex(7)
    assert nvml.nvmlDeviceGetCpuAffinity(handle, 2) == [0, 1 << 6]
    assert nvml.nvmlDeviceGetMemoryAffinity(handle, 1, 0) == [2]
