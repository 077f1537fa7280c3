"""Each test has a machine of its own."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.security.machine import Machine
from tests.standin import World


@pytest.fixture
def machine(open_folder: pathlib.Path) -> Iterator[Machine]:
    made = Machine(open_folder)
    yield made
    made.end()


@pytest.fixture
def cards(machine: Machine, library: pathlib.Path) -> Iterator[World]:
    """Two cards of the stand-in driver on that machine, instead of simulated GPUs."""
    world = machine.with_driver(library, 2)
    yield world
    world.close()
