"""`fallow doctor`: check each part of the installation, and say what is wrong and what to do.

run_checks   run the checks; one that fails or hangs is a finding, and the others go on
gpus         driver, GPUs, process lists, counters, device files
container    pids and folders that a container shares with the machine
machine      /proc, terminals
folders      claims, state, journal, history, config
permissions  signals, power, stacks
service      the daemon and its socket, the unit
installed    which fallow is started by its name
root_folder  the claim folder of a daemon of root
"""

from fallow.engine.doctor.run_checks import examine

__all__ = ["examine"]
