"""Measurements, as ratios within one run: these are noisy machines."""
