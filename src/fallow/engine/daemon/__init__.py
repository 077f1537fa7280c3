"""`fallow up`: everything above in one loop."""
