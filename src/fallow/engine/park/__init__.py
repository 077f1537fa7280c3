"""Parking jobs: their memory leaves the GPUs, their processes stay, and they are woken again."""
