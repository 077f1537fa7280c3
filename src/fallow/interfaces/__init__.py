"""Doors: they ask and render; they never decide."""
