"""CUDA, as far as a load needs it: one device, its memory, its kernels, and failures as sentences.

No other file knows the vendor's error codes. The device is the first one that CUDA_VISIBLE_DEVICES names.
"""

import ctypes
from typing import Any, NoReturn

from fallow.core.errors import CardFailed, NoDriver, NotEnoughGpus, PartMissing

Argument = ctypes.c_uint32 | ctypes.c_uint64
_NEEDS = 12000  # CUDA 12.0: the oldest whose compiler knows all of our kernels
_OK = 0
_NOT_USABLE = {
    *("CUDA_ERROR_NO_DEVICE", "CUDA_ERROR_INVALID_DEVICE", "CUDA_ERROR_STUB_LIBRARY", "CUDA_ERROR_NOT_PERMITTED"),
    *("CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "CUDA_ERROR_NO_BINARY_FOR_GPU", "CUDA_ERROR_INVALID_PTX"),
    *("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
}
"""The driver is too old, or shows this process no such GPU."""
_OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"
_TAKEN = "CUDA_ERROR_DEVICE_UNAVAILABLE"


class Device:
    """One CUDA device with a context of ours on it. Each thread calls `use` first."""

    def __init__(self) -> None:
        self._driver = _start()
        self._device = self._ask(self._driver.cuDeviceGet(0))
        about = self._driver.CUdevice_attribute
        self.multiprocessors = int(self._attribute(about.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT))
        self.capability = (
            int(self._attribute(about.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)),
            int(self._attribute(about.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)),
        )
        handles = about.CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
        self.can_reserve = bool(self._attribute(handles))  # all but some virtual GPUs
        # A thread that waits for the device sleeps, and costs no core.
        blocking = self._driver.CUctx_flags.CU_CTX_SCHED_BLOCKING_SYNC
        self._ask(self._driver.cuDevicePrimaryCtxSetFlags(self._device, int(blocking)))
        self._context = self._ask(self._driver.cuDevicePrimaryCtxRetain(self._device))
        self.use()
        self._stream = self._ask(self._driver.cuStreamCreate(0))

    def use(self) -> None:
        """Make it the device of this thread."""
        self._ask(self._driver.cuCtxSetCurrent(self._context))

    def free_bytes(self) -> int:
        """Return how much memory is free."""
        return int(self._ask(self._driver.cuMemGetInfo())[0])

    def take(self, size: int) -> int | None:
        """Allocate so many bytes and return the address; None if there are not so many in one piece."""
        code, *found = self._driver.cuMemAlloc(size)
        if code.name == _OUT_OF_MEMORY:
            return None
        self._demand(code)
        return int(found[0])

    def free(self, address: int) -> None:
        """Free memory, after waiting for kernels that were sent."""
        self._ask(self._driver.cuMemFree(address))

    def reserve(self, size: int) -> int | None:
        """Allocate so many bytes without an address and return the handle; None if there are not so many.

        No kernel can use such memory, so it is freed without waiting for the device, which is busy with a newcomer.
        """
        driver = self._driver
        kind = driver.CUmemAllocationProp()
        kind.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        kind.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        kind.location.id = int(self._device)
        code, *found = driver.cuMemCreate(size, kind, 0)
        if code.name == _OUT_OF_MEMORY:
            return None
        self._demand(code)
        return int(found[0])

    def release(self, handle: int) -> None:
        """Free memory that has a handle."""
        self._ask(self._driver.cuMemRelease(handle))

    def kernels(self, source: str, *names: str) -> list[Any]:
        """Compile a module and return its kernels."""
        module = self._ask(self._driver.cuModuleLoadData(source.encode() + b"\0"))
        return [self._ask(self._driver.cuModuleGetFunction(module, name.encode())) for name in names]

    def launch(self, kernel: Any, blocks: int, threads: int, *arguments: Argument) -> None:  # noqa: ANN401  a CUfunction
        """Send a kernel to the device."""
        values = tuple(argument.value for argument in arguments), tuple(type(argument) for argument in arguments)
        self._ask(self._driver.cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, self._stream, values, 0))

    def event(self) -> Any:  # noqa: ANN401  a CUevent
        """Create an event, which can be recorded after what was sent and waited for."""
        return self._ask(self._driver.cuEventCreate(int(self._driver.CUevent_flags.CU_EVENT_BLOCKING_SYNC)))

    def mark(self, event: Any) -> None:  # noqa: ANN401
        """Record the event after what was sent so far."""
        self._ask(self._driver.cuEventRecord(event, self._stream))

    def wait_for(self, event: Any) -> None:  # noqa: ANN401
        """Wait until the device has reached the event."""
        self._ask(self._driver.cuEventSynchronize(event))

    def between_ms(self, first: Any, second: Any) -> float:  # noqa: ANN401
        """Return the time between two events, as the device measured it."""
        return float(self._ask(self._driver.cuEventElapsedTime(first, second)))

    def number(self, address: int) -> int:
        """Return the 64-bit number at this address."""
        into = ctypes.c_uint64()
        self._ask(self._driver.cuMemcpyDtoH(ctypes.addressof(into), address, 8))
        return into.value

    def clear(self, address: int, size: int) -> None:
        """Write zeros; the size is a multiple of 4."""
        self._ask(self._driver.cuMemsetD32(address, 0, size // 4))

    def _attribute(self, which: Any) -> Any:  # noqa: ANN401  the vendor's numbers
        return self._ask(self._driver.cuDeviceGetAttribute(which, self._device))

    def _ask(self, answer: tuple[Any, ...]) -> Any:  # noqa: ANN401  what the call returned
        code, *results = answer
        self._demand(code)
        return results[0] if len(results) == 1 else results

    def _demand(self, code: Any) -> None:  # noqa: ANN401  a CUresult
        if int(code) != _OK:
            _fail(code.name)


def _start() -> Any:  # noqa: ANN401  the vendor's module
    try:
        from cuda.bindings import driver  # noqa: PLC0415  only the process that loads a GPU pays for it
    except ImportError:
        raise PartMissing.of("loading a GPU", "cuda-bindings") from None
    try:
        version = int(driver.cuDriverGetVersion()[1] or 0)
        if 0 < version < _NEEDS:
            spoken = f"{version // 1000}.{version % 1000 // 10}"
            raise NoDriver(f"the driver speaks CUDA {spoken}; loading a GPU needs one for CUDA 12.0 or newer (525)")
        begun = driver.cuInit(0)[0]
    except (RuntimeError, OSError):  # what cuda-bindings raises if the library is missing or too old
        raise NoDriver("there is no NVIDIA driver here that speaks CUDA") from None
    if int(begun) != _OK:
        raise NoDriver(f"CUDA does not start: {begun.name}")
    return driver


def _fail(name: str) -> NoReturn:
    if name in _NOT_USABLE:
        raise NoDriver(f"CUDA cannot use this GPU ({name}); it needs a driver for CUDA 12.0 or newer (525)")
    if name == _OUT_OF_MEMORY:
        raise NotEnoughGpus("its memory is full: not even a context finds room")
    if name == _TAKEN:
        raise NotEnoughGpus("it is in exclusive mode, and another process uses it")
    raise CardFailed(f"the driver reports {name} (see: dmesg)")
