"""`fallow doctor`: check each part of the installation, and say what is wrong and what to do.

run_checks   run the checks; one that fails or hangs is a finding, and the others go on
gpus         driver, GPUs, process lists, counters, device files
container    pids and folders that a container shares with the machine
machine      /proc, terminals, the clock
folders      claims, state, journal, history, config
permissions  signals, power, stacks
service      the daemon and its socket, the unit, packages
installed    the command, man pages, completion; whether unit, package and Python agree
fix          give the claim folder to root
"""

from fallow.engine.doctor.run_checks import examine

__all__ = ["examine"]
