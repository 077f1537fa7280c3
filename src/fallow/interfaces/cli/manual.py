"""`fallow help COMMAND` on a terminal: show the man page, if this fallow has one and there is a `man`."""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress

from fallow.actuators.process import spawn
from fallow.core.errors import CannotRun, CommandNotFound
from fallow.engine.machine.installation import MAN, shared_file


def show_manual(command: str, environ: Mapping[str, str]) -> None:
    """Replace this process by `man`; return if that cannot be, and the help is to be printed."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        return
    page = shared_file(os.path.join(MAN, f"fallow-{command}.1"))
    if page is None:
        return
    with suppress(CannotRun, CommandNotFound):
        spawn.become(spawn.find(["man"], environ), ["man", page], environ)
