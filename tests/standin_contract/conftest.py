"""A world of its own for every test, read by one long-lived process."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.standin import World, build

from . import raw
from .remote import Reader


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder with the library in it."""
    return build(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="session")
def reader_process(library: pathlib.Path) -> Iterator[Reader]:
    reader = Reader({"LD_LIBRARY_PATH": str(library)})
    yield reader
    reader.close()


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    """Eight idle cards."""
    with World.create(tmp_path / "world") as world:
        yield world


@pytest.fixture
def reader(reader_process: Reader, world: World) -> Iterator[Reader]:
    """A reader of the world that has not started the library yet."""
    reader_process.run(raw.use_world, str(world.path))
    yield reader_process
    world.heal()
    reader_process.run(raw.end)


@pytest.fixture
def nvml(reader: Reader) -> Reader:
    """A reader that has started the library."""
    reader.nvmlInit()
    return reader
