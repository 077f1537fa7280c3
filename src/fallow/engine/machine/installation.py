"""Where this fallow is installed, and the files that came with it: man pages and completion."""

import os
import sys
from collections.abc import Iterator

MAN = "share/man/man1"
COMPLETION = {
    "bash": "share/bash-completion/completions/fallow",
    "zsh": "share/zsh/site-functions/_fallow",
    "fish": "share/fish/vendor_completions.d/fallow.fish",
}
"""Where a package has the completion of each shell, below its prefix."""
_OF_THE_SYSTEM = "/usr"


def prefixes() -> Iterator[str]:
    """Yield the prefixes of this fallow's own files: its environment's and, for a package, the system's."""
    yield sys.prefix
    if os.path.realpath(sys.prefix).startswith(f"{_OF_THE_SYSTEM}{os.sep}"):
        yield _OF_THE_SYSTEM


def shared_file(path: str) -> str | None:
    """Return where one of this fallow's own files is, such as share/man/man1/fallow.1; packages compress some."""
    candidates = (os.path.join(prefix, path + end) for prefix in prefixes() for end in ("", ".gz"))
    return next(filter(os.path.isfile, candidates), None)
