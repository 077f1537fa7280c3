"""What each load looks like: the table that was measured on an H200, row by row."""

from typing import Any, NamedTuple

from fallow.core.gpu import Counters, Gpu, Holder, Recent
from tests.core.gpus import GIB, held, idle

PID = 100


class Load(NamedTuple):
    """One row: ratios, watts and bytes a second."""

    name: str
    utilization: float
    of_process: float | None
    power_w: float
    sm: float
    occupancy: float
    tensor: float
    dram: float
    pcie_bytes_per_s: float = 0.0
    floating: float = 0.0


NOTHING = Load("nothing, no context", 0.0, None, 83, 0.0, 0.0, 0.0, 0.0)
HOLDS = Load("holds 8 GiB, does nothing", 0.0, 0.0, 128, 0.0, 0.0, 0.0, 0.0)
ONE_THREAD = Load("one thread spins", 1.0, 0.99, 128, 0.008, 0.0001, 0.0, 0.0)
SPINS = Load("132 blocks of 32 threads spin", 1.0, 0.99, 140, 0.999, 0.016, 0.0, 0.0)
MANY_STREAMS = Load("spins in 128 streams", 1.0, 0.99, 126, 0.2424, 0.0038, 0.0, 1.1e-4, 7.5e9)
WAITS = Load("32 blocks of 544 threads wait", 1.0, 0.99, 136, 0.2424, 0.0644, 0.0, 4e-6, 0.1e6)
WAITS_FOR_HOST = Load("32 blocks of 544 threads wait for the host", 1.0, 0.99, 127, 0.2424, 0.0644, 0.0, 0.0, 45e6)
ALL_WAIT = Load("132 blocks of 1024 threads wait", 1.0, 0.99, 141, 1.0, 0.5, 0.0, 4e-6, 0.1e6)
FLAT_OUT = Load("matmul, flat out", 1.0, 0.99, 691, 0.96, 0.14, 0.94, 0.16)
FIVE_PER_CENT = Load("matmul, 5 % of the time", 0.05, 0.05, 166, 0.038, 0.006, 0.037, 0.009)
COPIES = Load("host-to-device copies", 0.99, 0.99, 135, 0.0, 0.0, 0.0, 0.011, 56e9)
LAUNCHES = Load("kernels of one element, one after the other", 0.2, 0.2, 126, 0.0, 0.0, 0.0, 0.0, 0.18e9)
LSTM = Load("a small LSTM, bound by its launches", 0.66, 0.66, 127, 0.011, 0.001, 0.0, 0.0, 18e6)
GRAPH = Load("a CUDA graph of kernels of one float", 0.99, 0.99, 128, 0.0031, 0.00015, 1.8e-5, 4e-6, 1.5e6, 3.6e-5)
INTEGERS = Load("a CUDA graph of kernels of one integer", 0.99, 0.99, 128, 0.0032, 0.00016, 0.0, 4e-6, 1.5e6)
FP64_GRAPH = Load(
    "a CUDA graph of fp64 products, 64 x 64", 0.99, 0.99, 126, 0.021, 0.0013, 0.0034, 0.0, 1.08e6, 0.0001
)
FP32_GRAPH = Load(
    "a CUDA graph of fp32 products, 64 x 64", 0.99, 0.99, 124, 0.024, 0.0007, 0.00001, 0.0, 0.87e6, 0.0026
)
FP64_SVD = Load("fp64 singular values, 600 x 600", 0.97, 0.97, 176, 0.142, 0.028, 0.00001, 0.0, 99e6, 0.051)
FP64_EIGH = Load("fp64 eigenvalues, 1500 x 1500", 0.97, 0.97, 211, 0.783, 0.19, 0.0116, 0.0034, 39e6, 0.0165)
SLOW_COPIES = Load("copies to the host, pageable", 0.04, 0.04, 126, 0.0, 0.0, 0.0, 0.0, 1.4e9)

WORKING = (
    FLAT_OUT,
    COPIES,
    LAUNCHES,
    LSTM,
    GRAPH,
    INTEGERS,
    FP64_GRAPH,
    FP32_GRAPH,
    FP64_SVD,
    FP64_EIGH,
    SLOW_COPIES,
)
HANGS = (ONE_THREAD, SPINS, MANY_STREAMS, WAITS, WAITS_FOR_HOST, ALL_WAIT)
TABLE = (NOTHING, HOLDS, ONE_THREAD, SPINS, FLAT_OUT, FIVE_PER_CENT, COPIES)


def card(load: Load, **changes: Any) -> Gpu:
    """The card under this load, with every reading that an H200 gives."""
    readings: dict[str, Any] = {
        "utilization": load.utilization,
        "recent": Recent(1.0, load.utilization, load.utilization),
        "power_w": float(load.power_w),
        "power_limit_w": 700.0,
        "counters": Counters(load.sm, load.occupancy, load.tensor, load.dram, load.floating),
        "pcie_rx_bytes_per_s": load.pcie_bytes_per_s,
        "pcie_tx_bytes_per_s": 0.0,
    }
    if load.of_process is None:
        return idle(**{**readings, **changes})
    holders = (Holder(PID, 8 * GIB, utilization=load.of_process),)
    return held(**{**readings, "holders": holders, **changes})
