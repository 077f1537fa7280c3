"""Interfaces: the command line, the web page, the daemon's socket and the Python library."""
