"""Check which fallow is started by its name."""

import os
import sys
from collections.abc import Iterator
from shlex import quote

from fallow.engine.doctor.finding import CheckFinding, lacking, ok
from fallow.engine.machine.world import World


def program(world: World) -> Iterator[CheckFinding]:
    """Check which fallow is started by its name."""
    found = _on_path(world.environ.get("PATH", os.defpath))
    ours, folder = quote(_own_program()), quote(os.path.dirname(_own_program()))
    if not found:
        means = f"{ours} is not on the PATH: `fallow` is no command in a shell"
        yield lacking("command", means, f"add {folder} to the PATH, or link {ours} into a folder of it")
    elif not _is_own(found[0]):
        means = f"`fallow` in a shell is {quote(found[0])}, another installation than this one ({ours})"
        yield lacking("command", means, f"remove one of them, or put {folder} first in the PATH")
    else:
        others = [each for each in found[1:] if not _is_own(each)]
        beside = f"; there is another one behind it on the PATH, {', '.join(map(quote, others))}" if others else ""
        yield ok("command", f"`fallow` in a shell is {quote(found[0])}, this one{beside}")


def _own_program() -> str:
    """Return the program `fallow` of this installation, as it was installed; it need not be there any more."""
    from importlib.metadata import PackageNotFoundError, files

    try:
        scripts = [each for each in files("fallow") or () if each.parts[-2:] == ("bin", "fallow")]
    except PackageNotFoundError:
        scripts = []
    beside = os.path.join(os.path.dirname(sys.executable), "fallow")
    return os.path.normpath(str(scripts[0].locate())) if scripts else beside


def _on_path(path: str) -> list[str]:
    """Return each `fallow` that a PATH finds, the first one first, without those that are the same file."""
    found: dict[str, str] = {}
    for folder in filter(None, path.split(os.pathsep)):
        program = os.path.join(folder, "fallow")
        if os.path.isfile(program) and os.access(program, os.X_OK):
            found.setdefault(os.path.realpath(program), program)
    return list(found.values())


def _is_own(program: str) -> bool:
    """Return whether a program starts this fallow: it is ours, or a package's short script that names ours."""
    ours = os.path.realpath(_own_program())
    if os.path.realpath(program) == ours:
        return True
    try:
        with open(program, "rb") as file:
            text = file.read(1024).decode(errors="replace")
    except OSError:
        return False
    return sys.executable in text or ours in text
