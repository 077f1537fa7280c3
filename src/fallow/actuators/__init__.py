"""Hands: each effect on the world has one file here that does it."""
