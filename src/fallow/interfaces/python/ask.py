"""How a call reaches the machine: it opens what it needs, and closes it before it returns."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from fallow.core.errors import NotEnoughGpus
from fallow.core.units import printable
from fallow.engine.answers.asker import Asker
from fallow.engine.machine.world import World


@contextmanager
def asking(simulate: str | None) -> Iterator[tuple[Asker, list[str]]]:
    """Yield who asks, and the list that gets what a command would write to stderr."""
    world = World(os.environ, simulate=simulate)
    notes: list[str] = []
    try:
        yield Asker(world, notes.append, lambda _: None), notes
    except NotEnoughGpus as error:
        from fallow.interfaces.render.refused_text import lines

        error.args = ("\n".join([str(error), *map(printable, lines(error.refused))]),)
        raise
    finally:
        world.close()
