"""A program that comes to the card and asks for a share of its memory at once, as a training job does.

Says whether it got it, and how long after the moment that its caller names.
"""

import json
import sys
import time

from cuda.bindings import driver


def main(began_s: float, share: float) -> None:
    driver.cuInit(0)
    context = driver.cuDevicePrimaryCtxRetain(driver.cuDeviceGet(0)[1])[1]
    driver.cuCtxSetCurrent(context)
    total = driver.cuDeviceTotalMem(driver.cuDeviceGet(0)[1])[1]
    code = driver.cuMemAlloc(int(share * total))[0]
    print(json.dumps({"code": int(code), "took_s": time.monotonic() - began_s}), flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]))
