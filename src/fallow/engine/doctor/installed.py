"""Check which fallow is started by its name."""

import os
from collections.abc import Iterator
from shlex import quote

from fallow.engine.doctor.finding import CheckFinding, lacking, ok
from fallow.engine.machine.installation import is_own, on_path, own_program
from fallow.engine.machine.world import World


def program(world: World) -> Iterator[CheckFinding]:
    """Check which fallow is started by its name."""
    found = on_path(world.environ.get("PATH", os.defpath))
    ours, folder = quote(own_program()), quote(os.path.dirname(own_program()))
    if not found:
        means = f"{ours} is not on the PATH: `fallow` is no command in a shell"
        yield lacking("command", means, f"add {folder} to the PATH, or link {ours} into a folder of it")
    elif not is_own(found[0]):
        means = f"`fallow` in a shell is {quote(found[0])}, another installation than this one ({ours})"
        yield lacking("command", means, f"remove one of them, or put {folder} first in the PATH")
    else:
        others = [each for each in found[1:] if not is_own(each)]
        beside = f"; there is another one behind it on the PATH, {', '.join(map(quote, others))}" if others else ""
        yield ok("command", f"`fallow` in a shell is {quote(found[0])}, this one{beside}")
