"""What the stand-in library promises, held against the real Python binding and its users."""
