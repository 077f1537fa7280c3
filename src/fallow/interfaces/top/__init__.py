"""`fallow top`: all GPUs and the jobs on them, live on a terminal."""
