"""Stand-ins for NVIDIA's management library and for CUDA, driven live by a test."""

from tests.standin.build import CUDA_SONAME, SONAME, BuildError, build
from tests.standin.card import Card, MigInstance, Process
from tests.standin.world import World

__all__ = ["CUDA_SONAME", "SONAME", "BuildError", "Card", "MigInstance", "Process", "World", "build"]
