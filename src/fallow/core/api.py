"""What clients and the daemon share: the version of the JSON, and the header that names the machine."""

VERSION = 1
"""The version of all JSON that fallow prints and serves. It grows when a field goes away or changes its meaning."""

MACHINE_HEADER = "fallow-machine"
"""The header by which a client says which GPUs it means: `real`, or the simulated machine, such as `8xH100`."""
REAL_MACHINE = "real"
