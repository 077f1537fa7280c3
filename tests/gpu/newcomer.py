"""A program that comes to the card and asks for memory at once, as a training job does.

Says whether it got it, and how long after the moment that its caller names: `newcomer.py BEGAN_S SHARE`, or with
`torch` for SHARE a first tensor of 60 GiB through PyTorch.
"""

import json
import sys
import time

OUT_OF_MEMORY = 2


def bare(share: float) -> int:
    """Through the driver alone; the driver's code."""
    from cuda.bindings import driver

    driver.cuInit(0)
    context = driver.cuDevicePrimaryCtxRetain(driver.cuDeviceGet(0)[1])[1]
    driver.cuCtxSetCurrent(context)
    total = driver.cuDeviceTotalMem(driver.cuDeviceGet(0)[1])[1]
    return int(driver.cuMemAlloc(int(share * total))[0])


def through_torch() -> int:
    """A tensor; 2 if there was no memory for it."""
    import torch

    try:
        torch.empty(60 * 2**30, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        return OUT_OF_MEMORY
    return 0


if __name__ == "__main__":
    code = through_torch() if sys.argv[2] == "torch" else bare(float(sys.argv[2]))
    print(json.dumps({"code": code, "took_s": time.monotonic() - float(sys.argv[1])}), flush=True)
