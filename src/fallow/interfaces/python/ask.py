"""How a call reaches the machine: it opens what it needs, and closes it before it returns."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from fallow.core.errors import NotEnoughGpus
from fallow.core.units import printable
from fallow.core.value import value
from fallow.engine.answers.asker import Asker
from fallow.engine.machine.world import World


@value
class Way:
    """Which machine is asked, and whether its daemon may answer."""

    simulate: str | None
    alone: bool


HERE = Way(None, False)
"""The machine that the environment names."""


@contextmanager
def asking(way: Way) -> Iterator[tuple[Asker, list[str]]]:
    """Yield who asks, and the list that gets what a command would write to stderr."""
    world = World(os.environ, simulate=way.simulate)
    notes: list[str] = []
    try:
        yield Asker(world, notes.append, lambda _: None, alone=way.alone), notes
    except NotEnoughGpus as error:
        from fallow.interfaces.render.refused_text import lines

        error.args = ("\n".join([str(error), *map(printable, lines(error.refused))]),)
        raise
    finally:
        world.close()
