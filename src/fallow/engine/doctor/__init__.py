"""Examining the installation, part by part: what is there, what it may do, and what each lack means.

examining   runs the checks, each by itself: one that fails or hangs is a finding and stops no other
cards       driver, cards, process lists, counters, device nodes
machine     /proc, namespaces, terminals, the clock
folders     claims, state, journal, history, config
rights      signals, power, stacks
service     the daemon and its socket, the unit, optional parts
"""

from fallow.engine.doctor.run_checks import examine

__all__ = ["examine"]
