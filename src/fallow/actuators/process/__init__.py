"""What is done to processes: start, signal, stop, suspend, look into."""
