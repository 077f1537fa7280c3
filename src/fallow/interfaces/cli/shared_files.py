"""Write what a package puts where man and the shells look for it: man pages and completion. For builds only."""

import os

from fallow.engine.machine.installation import COMPLETION, MAN
from fallow.interfaces.cli.completion import script
from fallow.interfaces.cli.man_pages import man_pages


def write_shared_files(folder: str, date: str) -> None:
    """Write all files below a folder; `date` is the one that the man pages have, as 2026-11-16."""
    texts = {path: script(shell) for shell, path in COMPLETION.items()}
    texts |= {f"{MAN}/{name}": text for name, text in man_pages(date)}
    for path, text in texts.items():
        whole = os.path.join(folder, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w", encoding="utf-8") as file:
            file.write(text)
