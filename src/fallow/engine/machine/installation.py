"""Where the program of this fallow is."""

import os
import sys


def own_program() -> str:
    """Return the program `fallow` of this installation, as it was installed; it need not be there any more."""
    from importlib.metadata import PackageNotFoundError, files

    try:
        scripts = [each for each in files("fallow") or () if each.parts[-2:] == ("bin", "fallow")]
    except PackageNotFoundError:
        scripts = []
    beside = os.path.join(os.path.dirname(sys.executable), "fallow")
    return os.path.normpath(str(scripts[0].locate())) if scripts else beside


def on_path(path: str) -> list[str]:
    """Return each `fallow` that a PATH finds, the first one first, without those that are the same file."""
    found: dict[str, str] = {}
    for folder in filter(None, path.split(os.pathsep)):
        program = os.path.join(folder, "fallow")
        if os.path.isfile(program) and os.access(program, os.X_OK):
            found.setdefault(os.path.realpath(program), program)
    return list(found.values())


def is_own(program: str) -> bool:
    """Return whether a program starts this fallow: it is ours, or a package's short script that names ours."""
    ours = os.path.realpath(own_program())
    if os.path.realpath(program) == ours:
        return True
    text = _begins(program)
    return sys.executable in text or ours in text


def _begins(program: str) -> str:
    try:
        with open(program, "rb") as file:
            return file.read(1024).decode(errors="replace")
    except OSError:
        return ""
