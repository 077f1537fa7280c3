"""CUDA, as far as a load needs it: one card, its memory, kernels, and failures in sentences.

The vendor's codes end here. Which card it is, CUDA_VISIBLE_DEVICES says: it is the first that CUDA shows.
"""

import ctypes
from typing import Any, NoReturn

from fallow.core.errors import (
    CardFailed,
    NoDriver,
    NotEnoughGpus,
    PartMissing,
)

Argument = ctypes.c_uint32 | ctypes.c_uint64
_NEEDS = 12000  # CUDA 12.0: the oldest whose compiler knows all of our kernels
_OK = 0
_NO_CARD = {
    "CUDA_ERROR_NO_DEVICE",
    "CUDA_ERROR_INVALID_DEVICE",
    "CUDA_ERROR_STUB_LIBRARY",
    "CUDA_ERROR_NOT_PERMITTED",
}
_TOO_OLD = {
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    "CUDA_ERROR_NO_BINARY_FOR_GPU",
    "CUDA_ERROR_INVALID_PTX",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
}
_OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"
_TAKEN = "CUDA_ERROR_DEVICE_UNAVAILABLE"
_MEANING = {
    "CUDA_ERROR_UNKNOWN": "it does not answer any more; it may have fallen off the bus (see: dmesg)",
    "CUDA_ERROR_ECC_UNCORRECTABLE": "its memory has an error that cannot be corrected",
    "CUDA_ERROR_ILLEGAL_ADDRESS": "a kernel reached for memory that is not there",
    "CUDA_ERROR_LAUNCH_FAILED": "a kernel failed",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "a kernel took too long, and the driver ended it",
    "CUDA_ERROR_HARDWARE_STACK_ERROR": "a kernel met a hardware fault",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "a kernel met an instruction that the card does not know",
}


class Card:
    """One card with a context of ours on it. Each thread that uses it says so with `use` first."""

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
        self.can_reserve = bool(self._attribute(handles))  # all can, but some virtual ones
        # Whoever waits for the card sleeps; it must not cost a core.
        blocking = self._driver.CUctx_flags.CU_CTX_SCHED_BLOCKING_SYNC
        self._ask(self._driver.cuDevicePrimaryCtxSetFlags(self._device, int(blocking)))
        self._context = self._ask(self._driver.cuDevicePrimaryCtxRetain(self._device))
        self.use()
        self._stream = self._ask(self._driver.cuStreamCreate(0))

    def use(self) -> None:
        """Make it the card of this thread."""
        self._ask(self._driver.cuCtxSetCurrent(self._context))

    def free_bytes(self) -> int:
        """Memory that nobody has."""
        return int(self._ask(self._driver.cuMemGetInfo())[0])

    def take(self, size: int) -> int | None:
        """So many bytes of memory; None if there are not so many in one piece."""
        code, *found = self._driver.cuMemAlloc(size)
        if code.name == _OUT_OF_MEMORY:
            return None
        self._demand(code)
        return int(found[0])

    def give(self, place: int) -> None:
        """Give memory back; waits for kernels that are on their way."""
        self._ask(self._driver.cuMemFree(place))

    def reserve(self, size: int) -> int | None:
        """So many bytes that nobody will touch, by a handle; None if there are not so many. They have no address.

        Memory that is mapped nowhere is given back without waiting for the card, which serves whoever has just come.
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
        """Give such memory back."""
        self._ask(self._driver.cuMemRelease(handle))

    def kernels(self, source: str, *names: str) -> list[Any]:
        """Compile a module, and find its kernels."""
        module = self._ask(self._driver.cuModuleLoadData(source.encode() + b"\0"))
        return [self._ask(self._driver.cuModuleGetFunction(module, name.encode())) for name in names]

    def launch(self, kernel: Any, blocks: int, threads: int, *given: Argument) -> None:  # noqa: ANN401  a CUfunction
        """Send a kernel on its way."""
        values = tuple(argument.value for argument in given), tuple(type(argument) for argument in given)
        self._ask(self._driver.cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, self._stream, values, 0))

    def wait(self) -> None:
        """Until all that was sent is done."""
        self._ask(self._driver.cuStreamSynchronize(self._stream))

    def event(self) -> Any:  # noqa: ANN401  a CUevent
        """A mark that can be set behind what was sent, and waited for."""
        return self._ask(self._driver.cuEventCreate(int(self._driver.CUevent_flags.CU_EVENT_BLOCKING_SYNC)))

    def mark(self, event: Any) -> None:  # noqa: ANN401
        """Set the mark behind what was sent so far."""
        self._ask(self._driver.cuEventRecord(event, self._stream))

    def wait_for(self, event: Any) -> None:  # noqa: ANN401
        """Until the card has come to the mark."""
        self._ask(self._driver.cuEventSynchronize(event))

    def between_ms(self, first: Any, second: Any) -> float:  # noqa: ANN401
        """The card's own time from mark to mark."""
        return float(self._ask(self._driver.cuEventElapsedTime(first, second)))

    def number(self, place: int) -> int:
        """The 64-bit number that lies there."""
        into = ctypes.c_uint64()
        self._ask(self._driver.cuMemcpyDtoH(ctypes.addressof(into), place, 8))
        return into.value

    def clear(self, place: int, size: int) -> None:
        """Make it all zeros; the size is one of whole 32-bit words."""
        self._ask(self._driver.cuMemsetD32(place, 0, size // 4))

    def _attribute(self, which: Any) -> Any:  # noqa: ANN401  the vendor's numbers
        return self._ask(self._driver.cuDeviceGetAttribute(which, self._device))

    def _ask(self, answer: tuple[Any, ...]) -> Any:  # noqa: ANN401  whatever the call gives
        code, *given = answer
        self._demand(code)
        return given[0] if len(given) == 1 else given

    def _demand(self, code: Any) -> None:  # noqa: ANN401  a CUresult
        if int(code) != _OK:
            _fail(code.name)


def _start() -> Any:  # noqa: ANN401  the vendor's module
    try:
        from cuda.bindings import driver  # noqa: PLC0415  only the process that loads a card pays for it
    except ImportError:
        raise PartMissing.of("loading a card", "cuda-bindings") from None
    try:
        version = int(driver.cuDriverGetVersion()[1] or 0)
        if 0 < version < _NEEDS:
            spoken = f"{version // 1000}.{version % 1000 // 10}"
            raise NoDriver(f"the driver speaks CUDA {spoken}; loading a card needs one for CUDA 12.0 or newer (525)")
        begun = driver.cuInit(0)[0]
    except (RuntimeError, OSError):  # as cuda-bindings says that there is no library, or not the one it needs
        raise NoDriver("there is no NVIDIA driver here that speaks CUDA") from None
    if int(begun) != _OK:
        raise NoDriver(f"CUDA does not start: {begun.name}")
    return driver


def _fail(name: str) -> NoReturn:
    if name in _NO_CARD:
        raise NoDriver(f"CUDA shows no such card: {name}")
    if name in _TOO_OLD:
        raise NoDriver(f"the driver cannot compile for this card; it needs one for CUDA 12.0 or newer ({name})")
    if name == _OUT_OF_MEMORY:
        raise NotEnoughGpus("its memory is full: not even a context finds room")
    if name == _TAKEN:
        raise NotEnoughGpus("it is in exclusive mode, and somebody else has it")
    raise CardFailed(f"{_MEANING.get(name, 'the driver reports a failure')} ({name})")
