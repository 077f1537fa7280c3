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


NOTHING = Load("nothing, no context", 0.0, None, 83, 0.0, 0.0, 0.0, 0.0)
HOLDS = Load("holds 8 GiB, does nothing", 0.0, 0.0, 128, 0.0, 0.0, 0.0, 0.0)
ONE_THREAD = Load("one thread spins", 1.0, 0.99, 128, 0.008, 0.0001, 0.0, 0.0)
SPINS = Load("132 blocks of 32 threads spin", 1.0, 0.99, 140, 0.999, 0.016, 0.0, 0.0)
FLAT_OUT = Load("matmul, flat out", 1.0, 0.99, 691, 0.96, 0.14, 0.94, 0.16)
FIVE_PER_CENT = Load("matmul, 5 % of the time", 0.05, 0.05, 166, 0.038, 0.006, 0.037, 0.009)
COPIES = Load("host-to-device copies", 0.99, 0.99, 135, 0.0, 0.0, 0.0, 0.011, 56e9)

TABLE = (NOTHING, HOLDS, ONE_THREAD, SPINS, FLAT_OUT, FIVE_PER_CENT, COPIES)


def card(load: Load, **changes: Any) -> Gpu:
    """The card under this load, with every reading that an H200 gives."""
    readings: dict[str, Any] = {
        "utilization": load.utilization,
        "recent": Recent(1.0, load.utilization, load.utilization),
        "power_w": float(load.power_w),
        "power_limit_w": 700.0,
        "counters": Counters(load.sm, load.occupancy, load.tensor, load.dram),
        "pcie_rx_bytes_per_s": load.pcie_bytes_per_s,
        "pcie_tx_bytes_per_s": 0.0,
    }
    if load.of_process is None:
        return idle(**{**readings, **changes})
    holders = (Holder(PID, 8 * GIB, utilization=load.of_process),)
    return held(**{**readings, "holders": holders, **changes})
