"""Loads a card in this process, flips a bit of its memory behind the load's back, and prints what the load found.

For two loads: the wrong words before and after. `kinds`: the wrong words and the rate of each kind of product, also
of those that older cards are given. `python -m tests.gpu.flipping LOAD BYTES` prints the words of one load alone.
"""

import ctypes
import json
import sys
import time
from collections.abc import Sequence

from cuda.bindings import driver

from fallow.workloads.bench import Bench, DeviceMemory
from fallow.workloads.cuda import Device
from fallow.workloads.loads import CudaWork, Products
from fallow.workloads.products import best
from fallow.workloads.work import Ask, Load, Tally

SOME_STEPS = 8
BYTES = {Load.MEMORY: 8 * 2**30, Load.MATMUL: 4 * 2**30}


def ignore(wanted_bytes: int) -> None:
    """Of what it is about to take."""


def flip(address: int) -> None:
    """One bit, through the context that the load has."""
    word = ctypes.c_uint32()
    assert driver.cuMemcpyDtoH(ctypes.addressof(word), address, 4)[0] == 0
    word.value ^= 1 << 7
    assert driver.cuMemcpyHtoD(address, ctypes.addressof(word), 4)[0] == 0


def wrong_words(load: Load, size: int) -> dict[str, int]:
    """Before a word was flipped, and after."""
    work = CudaWork(Ask(load, verify=True, memory_bytes=size))
    work.begin(ignore)
    assert work.memory is not None
    for _ in range(SOME_STEPS):
        work.step()
    before = work.tally().wrong_words
    chunks = work.memory.chunks
    # What a load computes with it takes first, what it only holds last.
    flip((chunks[0] if load is Load.MATMUL else chunks[-1]).address + 4 * 777)
    for _ in range(SOME_STEPS):
        work.step()
    work.free()
    return {"before": before, "after": work.tally().wrong_words, "held_bytes": work.tally().held_bytes}


def kinds() -> dict[str, tuple[int, float]]:
    """Each kind of product, checked against itself."""
    found = {}
    for capability in ((8, 0), (7, 5), (7, 0)):
        device = Device()
        memory = DeviceMemory(device)
        bench = Bench(device, memory, best(capability))
        products, done, began = Products(bench, 2**30, verify=True), Tally(), time.perf_counter()
        for _ in range(100):
            done = products.go_on(done)
        reached = device.event()
        device.mark(reached)
        device.wait_for(reached)
        found[bench.product.name] = (bench.wrong_words(), done.flop / (time.perf_counter() - began))
        memory.free()
    return found


def main(words: Sequence[str]) -> object:
    """Measure all, on an empty card each, or one load alone."""
    if words:
        return wrong_words(Load(words[0]), int(words[1]))
    found = {load.value: wrong_words(load, size) for load, size in BYTES.items()}
    return {**found, "kinds": kinds()}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
