"""Run a command of fallow as another user, for root's daemon: `python -I -m fallow.interfaces.cli.as_user`.

It reads from stdin which user to become and what to run. What it needs is loaded before, so that fallow may be
installed where that user cannot read. Nothing of the user is read or run while it is root. It never becomes another
program, so the kernel lets that user neither trace it nor read its memory.
"""

import importlib
import json
import os
import sys
from collections.abc import Sequence

from fallow.core.account import Account
from fallow.core.errors import FallowError

_LOADED = (
    "fallow.interfaces.cli.main",
    "fallow.interfaces.cli.stop",
    "fallow.interfaces.signals",
    "fallow.interfaces.render.as_json",
    "fallow.interfaces.render.stop_text",
    "fallow.engine.config.load",
    "fallow.engine.config.location",
    "fallow.engine.history.run",
    "fallow.engine.client.from_json",
    "fallow.engine.client.daemon_client",
    "fallow.engine.stop.afterwards",
    "fallow.engine.stop.compose",
    "fallow.engine.stop.idleness",
    "fallow.actuators.claims.protections",
    "fallow.actuators.files.own_folder",
    "fallow.core.cluster_names",
    "fallow.core.cluster_view",
    "fallow.core.missing",
    "difflib",
    "fallow.readers.nvml_reader",
    "fallow.readers.simulated_reader",
    "fallow.readers.terminals",
)


def main() -> None:
    """Become the user that stdin names, and run the command that it names."""
    told = json.load(sys.stdin)
    for name in _LOADED:
        importlib.import_module(name)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        _become(Account(*told["account"]))
    except FallowError as error:
        sys.exit(json.dumps({"level": "error", "message": str(error)}))
    os.chdir("/")
    os.environ.clear()
    os.environ.update(told["environ"])
    sys.exit(_run(told["command"]))


def _become(user: Account) -> None:
    if user.uid != os.geteuid():
        from fallow.actuators.host.become_user import become

        become(user)


def _run(words: Sequence[str]) -> int:
    from fallow.interfaces.cli.main import main as run

    return run(words)


if __name__ == "__main__":
    main()
