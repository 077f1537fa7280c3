"""Idle rules of the config: find the jobs on the GPUs, judge each by its rules, act on it."""
