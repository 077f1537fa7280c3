"""A world of its own for every test, read by one long-lived process."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.standin import World, build

from .remote import Reader


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder with the library in it."""
    return build(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="session")
def reader(library: pathlib.Path) -> Iterator[Reader]:
    made = Reader({"LD_LIBRARY_PATH": str(library)})
    yield made
    made.close()


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    """Eight idle cards."""
    with World.create(tmp_path / "world") as world:
        yield world


@pytest.fixture
def nvml(reader: Reader, world: World) -> Iterator[Reader]:
    """A reader of the world that has started the library."""
    reader(f"begin({str(world.path)!r})")
    yield reader
    world.heal()
    reader("nvml.nvmlShutdown()")
