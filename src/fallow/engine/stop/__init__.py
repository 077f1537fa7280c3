"""`fallow stop`: find the jobs that a person means, stop each through its owner, and see that its GPUs are free."""
