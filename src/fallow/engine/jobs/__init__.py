"""Watching a job, stopping it, and what follows after it has ended."""
