"""Readers read the state of the machine. What cannot be read becomes Unknown, never an exception and never a zero."""
