"""A program that comes to the card and asks for memory at once, as a training job does.

Says whether it got it, how long after the moment that its caller names, and when it had loaded its libraries:
`newcomer.py BEGAN_S SHARE`, or with `torch` for SHARE a first tensor of 60 GiB through PyTorch. A third word asks for
the memory in pieces of so many GiB.
"""

import json
import sys
import time

OUT_OF_MEMORY = 2


def bare(share: float, piece_gib: float | None) -> tuple[int, float]:
    """Through the driver alone; the driver's code, and when its library was loaded."""
    from cuda.bindings import driver

    loaded_s = time.monotonic()
    driver.cuInit(0)
    context = driver.cuDevicePrimaryCtxRetain(driver.cuDeviceGet(0)[1])[1]
    driver.cuCtxSetCurrent(context)
    total = driver.cuDeviceTotalMem(driver.cuDeviceGet(0)[1])[1]
    wanted = int(share * total)
    piece = wanted if piece_gib is None else int(piece_gib * 2**30)
    codes = (int(driver.cuMemAlloc(piece)[0]) for _ in range(wanted // piece))
    return next((code for code in codes if code), 0), loaded_s


def through_torch() -> tuple[int, float]:
    """A tensor; 2 if there was no memory for it, and when PyTorch was loaded."""
    import torch

    loaded_s = time.monotonic()
    try:
        torch.empty(60 * 2**30, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        return OUT_OF_MEMORY, loaded_s
    return 0, loaded_s


if __name__ == "__main__":
    began_s, share, *pieces = sys.argv[1:]
    piece_gib = float(pieces[0]) if pieces else None
    code, loaded_s = through_torch() if share == "torch" else bare(float(share), piece_gib)
    told = {"code": code, "took_s": time.monotonic() - float(began_s), "loaded_s": loaded_s - float(began_s)}
    print(json.dumps(told), flush=True)
