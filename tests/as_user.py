"""Runs fallow as another user: `python -m tests.as_user UID WORDS…`, started by root; without words, as a resident.

Where the interpreter or the package lies where others cannot read, everything is loaded before root is given up.
"""

import importlib
import importlib.metadata
import importlib.readers
import os
import pathlib
import pkgutil
import sys

import fallow
from tests.resident import serve


def others_can_read(*places: str) -> bool:
    """Whether any user may enter all folders on the way to these."""
    folders = {folder for place in places for folder in (pathlib.Path(place), *pathlib.Path(place).parents)}
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in folders if folder.is_dir())


def load_everything(*, with_page: bool) -> None:
    """What could be needed, while it can be read. The page, half of it all, is only for who serves it."""
    import json  # noqa: F401

    import inotify_simple  # noqa: F401

    for module in pkgutil.walk_packages(fallow.__path__, "fallow."):
        of_page = module.name.startswith("fallow.interfaces.web")
        if module.name != "fallow.__main__" and (with_page or not of_page):  # the first would be fallow at once
            importlib.import_module(module.name)
    importlib.metadata.requires("fallow")


def main() -> None:
    """Become the user, then be fallow."""
    if not sys.argv[2:] or not others_can_read(*fallow.__path__, sys.prefix, sys.base_prefix):
        load_everything(with_page="up" in sys.argv[2:3])
    from fallow.interfaces.cli.main import main as run

    uid = int(sys.argv[1])
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.chdir("/")
    if not sys.argv[2:]:
        serve()
        return
    sys.exit(run(sys.argv[2:]))


if __name__ == "__main__":
    main()
