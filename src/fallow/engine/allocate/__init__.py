"""Choosing GPUs for a job and claiming them."""
