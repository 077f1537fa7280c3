"""Read what Slurm's commands print: jobs, their GPUs, nodes. What users can write there is never believed."""
