"""A stand-in for NVIDIA's management library, driven live by a test."""

from tests.standin.build import SONAME, BuildError, build
from tests.standin.card import Card, MigInstance, Process
from tests.standin.world import World

__all__ = ["SONAME", "BuildError", "Card", "MigInstance", "Process", "World", "build"]
