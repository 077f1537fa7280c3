"""Actuators change the machine: each kind of effect has one file here."""
