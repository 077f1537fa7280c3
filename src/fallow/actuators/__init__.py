"""Actuators change the world: each kind of effect has one file here."""
