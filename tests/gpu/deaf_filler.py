"""A filler that does not cooperate: holds 88 % of what is free, and hears no polite word."""

import signal

from cuda.bindings import driver

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    driver.cuInit(0)
    driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(driver.cuDeviceGet(0)[1])[1])
    driver.cuMemAlloc(int(0.88 * driver.cuMemGetInfo()[1]))
    while True:
        signal.pause()
