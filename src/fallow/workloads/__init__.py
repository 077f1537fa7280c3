"""The loads that `fallow burn` runs on a GPU: real work through CUDA, or work that simulates it."""
