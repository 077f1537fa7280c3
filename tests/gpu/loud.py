"""A process that keeps the card busy without a pause, with kernels of a millisecond. It says "loud" once it does."""

import ctypes

from cuda.bindings import driver

_SPIN = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry spin(.param .u64 length_ns) {
    .reg .u64 %begin, %passed, %length;
    .reg .pred %goes_on;
    ld.param.u64 %length, [length_ns];
    mov.u64 %begin, %globaltimer;
LOOP:
    mov.u64 %passed, %globaltimer;
    sub.u64 %passed, %passed, %begin;
    setp.lt.u64 %goes_on, %passed, %length;
    @%goes_on bra LOOP;
    ret;
}
\0"""
_LENGTH_NS = 10**6


def main() -> None:
    """Spin until it is killed."""
    driver.cuInit(0)
    blocking = int(driver.CUctx_flags.CU_CTX_SCHED_BLOCKING_SYNC)
    driver.cuDevicePrimaryCtxSetFlags(0, blocking)
    driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
    kernel = driver.cuModuleGetFunction(driver.cuModuleLoadData(_SPIN)[1], b"spin")[1]
    length = ((_LENGTH_NS,), (ctypes.c_uint64,))
    said = False
    while True:
        codes = (driver.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, length, 0)[0], driver.cuCtxSynchronize()[0])
        assert all(int(code) == 0 for code in codes), codes
        if not said:
            print("loud", flush=True)
            said = True


if __name__ == "__main__":
    main()
