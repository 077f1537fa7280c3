"""Start, signal, stop and suspend processes, and dump their stacks."""
