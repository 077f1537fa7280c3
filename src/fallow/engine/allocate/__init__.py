"""Chooses GPUs for a job and claims them."""
