"""Runs fallow as another user: `python -m tests.as_user UID WORDS…`, started by root; without words, as a resident.

Everything is loaded before root is given up: the interpreter may lie where others cannot read.
"""

import importlib
import importlib.metadata
import os
import pkgutil
import sys

import inotify_simple  # noqa: F401  loaded while it can be

import fallow
from tests.resident import serve


def main() -> None:
    """Become the user, then be fallow."""
    for module in pkgutil.walk_packages(fallow.__path__, "fallow."):
        if module.name != "fallow.__main__":  # which would be fallow at once
            importlib.import_module(module.name)
    from fallow.faces.cli.main import main as run  # noqa: I001

    import json  # noqa: F401

    importlib.metadata.requires("fallow")  # loads what it needs, while it can
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
