"""This machine as the engine sees it: GPUs, processes, people, claims, the clock and the daemon."""
