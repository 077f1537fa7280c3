"""Find the line of each key in a TOML file.

The standard library's parser returns values without lines. So each statement of a text that it has accepted is given
to it once more, alone: one that does not parse goes on in the next line. docs/decisions says why.
"""

import tomllib
from collections.abc import Iterator, Mapping

Path = tuple[str | int, ...]
Lines = Mapping[Path, int]
_MOST_LINES = 200
"""Of one statement: each of its lines is read again with every further one."""


def lines_of(text: str) -> Lines:
    """Return the line of each key and table of a text that tomllib has accepted, counted from 1."""
    found: dict[Path, int] = {}
    lengths: dict[Path, int] = {}  # of lists written as [[…]]
    table: Path = ()
    for line, statement in _statements(text):
        values = tomllib.loads(statement)
        if statement.lstrip().startswith("["):
            table = _table(values, lengths, found, line)
        else:
            _note(values, table, found, line)
    return found


def line_of(lines: Lines, path: Path) -> int:
    """Return the line of a path, or of the innermost table or list around it that is in the file."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each statement with its first line, up to one that is too long."""
    rows = text.replace("\r\n", "\n").split("\n")
    begin = 0
    for end in range(1, len(rows) + 1):
        statement = "\n".join(rows[begin:end])
        try:
            tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            if end - begin > _MOST_LINES:
                return
            continue
        yield begin + 1, statement
        begin = end


def _table(values: Mapping[str, object], lengths: dict[Path, int], found: dict[Path, int], line: int) -> Path:
    """Note `[a.b]` or `[[a.b]]`; return its path, in which a part that names a list means its last item."""
    path: Path = ()
    while values:
        ((word, inner),) = values.items()
        path = (*path, word)
        found.setdefault(path, line)
        if isinstance(inner, list):
            lengths[path] = lengths.get(path, 0) + 1
            (inner,) = inner
        if path in lengths:
            path = (*path, lengths[path] - 1)
            found.setdefault(path, line)
        assert isinstance(inner, dict), "a header names tables"
        values = inner
    return path


def _note(values: Mapping[str, object], table: Path, found: dict[Path, int], line: int) -> None:
    """Note each key of `a.b = value`, also those of a table in the line."""
    for word, inner in values.items():
        found.setdefault((*table, word), line)
        if isinstance(inner, dict):
            _note(inner, (*table, word), found, line)
