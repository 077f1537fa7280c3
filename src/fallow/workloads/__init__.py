"""What `fallow burn` runs on a card: real work through CUDA, or a simulated likeness of it."""
