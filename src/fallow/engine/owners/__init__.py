"""Owners of jobs: who they are, what they say, and how a job is stopped through its owner."""
