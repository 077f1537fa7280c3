"""`fallow fill`: run background work on idle GPUs and remove it as soon as they are needed."""
