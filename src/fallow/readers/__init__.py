"""Readers read the world. What they cannot read becomes Unknown, never an exception and never a zero."""
