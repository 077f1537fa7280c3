"""As much of nvidia-smi as older tools ask for: `--query-gpu=… --format=csv,noheader,nounits`, from the driver."""

import sys

import pynvml

MIB = 2**20


def main(words: list[str]) -> None:
    asked = next(word.partition("=")[2].split(",") for word in words if word.startswith("--query-gpu="))
    pynvml.nvmlInit()
    for index in range(pynvml.nvmlDeviceGetCount()):
        print(", ".join(str(answer(name, index)) for name in asked))


def answer(name: str, index: int) -> object:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    known = {
        "index": lambda: index,
        "uuid": lambda: pynvml.nvmlDeviceGetUUID(handle),
        "utilization.gpu": lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        "memory.total": lambda: memory.total // MIB,
        "memory.used": lambda: memory.used // MIB,
        "memory.free": lambda: memory.free // MIB,
        "driver_version": pynvml.nvmlSystemGetDriverVersion,
        "name": lambda: pynvml.nvmlDeviceGetName(handle),
        "temperature.gpu": lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
    }
    try:
        return known[name]() if name in known else "Disabled"
    except pynvml.NVMLError_NotSupported:
        return "[N/A]"


if __name__ == "__main__":
    main(sys.argv[1:])
