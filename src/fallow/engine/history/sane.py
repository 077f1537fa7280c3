"""Which numbers of the file are believed: a disk may have changed them, and one that is huge makes a sum fail."""

_MOST = 2**45  # a thousand years in milliseconds


def sane(column: str) -> str:
    """Return the SQL for a column: its number, or zero if it is none that fallow has written."""
    return f"iif({column} BETWEEN 0 AND {_MOST}, {column}, 0)"


def number(found: object) -> int:
    """Return the number that was found, or zero alike."""
    return found if isinstance(found, int) and 0 <= found <= _MOST else 0
