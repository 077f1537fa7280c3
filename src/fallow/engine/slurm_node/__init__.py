"""A Slurm job seen from one of its nodes, without a Slurm command: what is left of it, and its GPUs."""
