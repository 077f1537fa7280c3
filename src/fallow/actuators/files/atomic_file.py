"""Replace a file atomically: it is written beside its place, then moved there."""

import os
from contextlib import suppress


def replace_file(path: str, text: str) -> None:
    """Write this text to the file, all of it or nothing; raise OSError if that fails. Only its owner may read it."""
    folder, name = os.path.split(path)
    beside = os.path.join(folder, f".{name}.{os.urandom(6).hex()}")
    fd = os.open(beside, os.O_WRONLY | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(fd)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
