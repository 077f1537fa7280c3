"""The layout of a world file, as world.h has it.

The structures lie right over the mapped file: setting a number is one aligned store that
every reader sees at once.
"""

import ctypes
from ctypes import c_char, c_double, c_int32, c_uint8, c_uint32, c_uint64

MAGIC = 0x31444C524F574C46
VERSION = 4

MAX_CARDS = 64
MAX_INSTANCES = 8
MAX_PROCESSES = 64
MAX_SAMPLES = 128
MAX_FAULTS = 512
MAX_COUNTERS = 512
MAX_STUCK = 1024
MAX_METRICS = 256
MAX_CUDA = 64
NAME_SIZE = 96
FUNCTION_SIZE = 72

NO_READING = 0xFFFFFFFF
NO_INSTANCE = 0xFFFFFFFF
NO_MEMORY_FIGURE = 0xFFFFFFFFFFFFFFFF


class ProcessEntry(ctypes.Structure):
    _fields_ = [
        ("pid", c_uint32),
        ("gpu_instance", c_uint32),
        ("compute_instance", c_uint32),
        ("reserved", c_uint32),
        ("memory", c_uint64),
    ]


class ProcessList(ctypes.Structure):
    _fields_ = [
        ("count", c_uint32),
        ("reserved", c_uint32),
        ("item", ProcessEntry * MAX_PROCESSES),
    ]


class ProcessSampleEntry(ctypes.Structure):
    _fields_ = [
        ("time_us", c_uint64),
        ("pid", c_uint32),
        ("sm", c_uint32),
        ("memory", c_uint32),
        ("encoder", c_uint32),
        ("decoder", c_uint32),
        ("reserved", c_uint32),
    ]


class SampleEntry(ctypes.Structure):
    _fields_ = [("time_us", c_uint64), ("value", c_uint32), ("reserved", c_uint32)]


class Metrics(ctypes.Structure):
    _fields_ = [
        ("supported", c_uint32),
        ("reserved", c_uint32),
        ("known", c_uint8 * MAX_METRICS),
        ("value", c_double * MAX_METRICS),
    ]


class InstanceEntry(ctypes.Structure):
    _fields_ = [
        ("present", c_uint32),
        ("gpu_instance", c_uint32),
        ("compute_instance", c_uint32),
        ("reserved", c_uint32),
        ("memory_total", c_uint64),
        ("memory_reserved", c_uint64),
        ("memory_used", c_uint64),
        ("uuid", c_char * NAME_SIZE),
        ("name", c_char * NAME_SIZE),
        ("compute", ProcessList),
        ("metrics", Metrics),
    ]


class CardEntry(ctypes.Structure):
    _fields_ = [
        ("sequence", c_uint32),
        ("minor", c_uint32),
        ("utilization", c_uint32),
        ("memory_utilization", c_uint32),
        ("power_mw", c_uint32),
        ("power_limit_mw", c_uint32),
        ("temperature_c", c_uint32),
        ("clock_mhz", c_uint32 * 4),
        ("performance_state", c_uint32),
        ("pcie_tx_kbps", c_uint32),
        ("pcie_rx_kbps", c_uint32),
        ("mig_capable", c_uint32),
        ("mig_mode", c_uint32),
        ("mig_slots", c_uint32),
        ("capability_major", c_uint32),
        ("capability_minor", c_uint32),
        ("memory_total", c_uint64),
        ("memory_reserved", c_uint64),
        ("memory_used", c_uint64),
        ("throttle_reasons", c_uint64),
        ("energy_mj", c_uint64),
        ("uuid", c_char * NAME_SIZE),
        ("name", c_char * NAME_SIZE),
        ("compute", ProcessList),
        ("graphics", ProcessList),
        ("mps", ProcessList),
        ("process_sample_count", c_uint32),
        ("explicit_samples", c_uint32),
        ("sample_count", c_uint32),
        ("reserved", c_uint32),
        ("process_sample", ProcessSampleEntry * MAX_PROCESSES),
        ("sample", SampleEntry * MAX_SAMPLES),
        ("metrics", Metrics),
        ("instance", InstanceEntry * MAX_INSTANCES),
    ]


class FaultEntry(ctypes.Structure):
    _fields_ = [
        ("token", c_uint64),
        ("delay_us", c_uint64),
        ("card", c_int32),
        ("instance", c_int32),
        ("error", c_uint32),
        ("never", c_uint32),
        ("busy", c_uint32),
        ("unused", c_uint32),
        ("function", c_char * FUNCTION_SIZE),
    ]


class CounterEntry(ctypes.Structure):
    _fields_ = [
        ("state", c_uint32),
        ("reserved", c_uint32),
        ("calls", c_uint64),
        ("function", c_char * FUNCTION_SIZE),
    ]


class CudaProcessEntry(ctypes.Structure):
    _fields_ = [
        ("pid", c_uint32),
        ("state", c_uint32),
        ("birth", c_uint64),
        ("contexts", c_uint32 * MAX_CARDS),
        ("memory", c_uint64 * MAX_CARDS),
    ]


class WorldFile(ctypes.Structure):
    _fields_ = [
        ("magic", c_uint64),
        ("version", c_uint32),
        ("size", c_uint32),
        ("cards", c_uint32),
        ("init_error", c_uint32),
        ("cuda_version", c_uint32),
        ("fault_limit", c_uint32),
        ("next_token", c_uint64),
        ("driver_version", c_char * 80),
        ("link_level", (c_uint32 * MAX_CARDS) * MAX_CARDS),
        ("link_status", (c_uint32 * MAX_CARDS) * MAX_CARDS),
        ("fault", FaultEntry * MAX_FAULTS),
        ("counter", CounterEntry * MAX_COUNTERS),
        ("stuck", c_uint64 * MAX_STUCK),
        ("card", CardEntry * MAX_CARDS),
        ("cuda", CudaProcessEntry * MAX_CUDA),
        ("bad_words", c_uint64 * MAX_CARDS),
    ]
