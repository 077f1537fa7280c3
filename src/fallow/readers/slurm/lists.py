"""Read Slurm's short lists: `n[1-2,7]` of nodes, `0-1,3` of GPUs, `gpu:a100:2(IDX:0-1)` of what a job holds."""

import re
from functools import lru_cache

_MOST_NODES = 100_000
_MOST_INDICES = 4096
_LONGEST = 1 << 16
_LONGEST_KNOWN = 100
_PART = re.compile(r"([^\[\],]*)(?:\[([0-9,\-]+)\])?", re.ASCII)
_NAME = re.compile(r"[^\[\],]+", re.ASCII)
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)
_ONE_OF_A_KIND = re.compile(r"gpu:[A-Za-z][^:,()]*(?:\([^()]*\))?", re.ASCII)
_GPUS = re.compile(r"gpu:(?:[^:,()]+:)?([0-9]{1,9})(?:\(([^()]*)\))?", re.ASCII)
_INDICES = re.compile(r"IDX:([0-9,\-]+)", re.ASCII)


def nodes(text: str) -> tuple[str, ...] | None:
    """Return the nodes of a list such as `n[1-2],gpu-[01-03]a`; None if it is none, or too long."""
    if not text or len(text) > _LONGEST:
        return None
    if _NAME.fullmatch(text):
        return (text,)
    found: list[str] = []
    for item in _split_outside(text, "[", "]"):
        names = _expanded(item)
        if not names or len(found) + len(names) > _MOST_NODES:
            return None
        found += names
    return tuple(found)


def numbers(text: str, most: int = _MOST_INDICES) -> tuple[int, ...] | None:
    """Return the numbers of a list such as `0-1,3`; None if it is none, or longer than `most`."""
    found: list[int] = []
    for item in text.split(","):
        match = _RANGE.fullmatch(item)
        if match is None:
            return None
        first = int(match[1])
        last = int(match[2] or first)
        if last < first or last - first + len(found) >= most:
            return None
        found += range(first, last + 1)
    return tuple(found)


def gpu_count(gres: str) -> int | None:
    """Return how many GPUs a list such as `gpu:a100:4(S:0-1),gpu:1,mps:100` has; None if it cannot be told."""
    total = 0
    for item in _split_outside(gres.removeprefix("gres:"), "(", ")"):
        name = item.removeprefix("gres:").removeprefix("gres/")
        if name == "gpu" or name.startswith("gpu(") or _ONE_OF_A_KIND.fullmatch(name):
            total += 1
        elif name.startswith("gpu:"):
            match = _GPUS.fullmatch(name.replace("=", ":"))
            if match is None:
                return None
            total += int(match[1])
    return total


def gpu_indices(gres: str) -> tuple[int, ...] | None:
    """Return the indices of the GPUs that a job holds in a node; None if Slurm does not say which they are."""
    return _known_indices(gres) if len(gres) <= _LONGEST_KNOWN else _indices(gres)


def _indices(gres: str) -> tuple[int, ...] | None:
    found: list[int] = []
    for item in _split_outside(gres, "(", ")"):
        if not item.startswith("gpu:"):
            continue
        match = _GPUS.fullmatch(item)
        if match is None:
            return None
        if int(match[1]) == 0:
            continue
        indices = _INDICES.fullmatch(match[2] or "")
        listed = numbers(indices[1]) if indices else None
        if listed is None or len(listed) != int(match[1]):
            return None
        found += listed
    return tuple(sorted(set(found))) if len(set(found)) == len(found) else None


_known_indices = lru_cache(maxsize=1024)(_indices)
"""Thousands of jobs hold the same few sets of indices."""


def _split_outside(text: str, opens: str, closes: str) -> list[str]:
    """Return the parts between commas that are not in brackets."""
    parts: list[list[str]] = []
    depth = 0
    for piece in text.split(","):
        if depth == 0:
            parts.append([piece])
        else:
            parts[-1].append(piece)
        depth += piece.count(opens) - piece.count(closes)
    return [",".join(part) for part in parts]


def _expanded(item: str) -> list[str]:
    """Return all names of one part, which may have several lists: `rack[1-2]n[01-04]`."""
    names = [""]
    at = 0
    while at < len(item):
        match = _PART.match(item, at)
        if match is None or match.end() == at:
            return []
        endings = [""]
        if match[2] is not None:
            listed = _padded(match[2])
            if listed is None or len(names) * len(listed) > _MOST_NODES:
                return []
            endings = listed
        names = [f"{name}{match[1]}{ending}" for name in names for ending in endings]
        at = match.end()
    return names


def _padded(text: str) -> list[str] | None:
    """Return the numbers of a list with their leading zeros: `01-03` is 01, 02, 03."""
    found: list[str] = []
    for item in text.split(","):
        match = _RANGE.fullmatch(item)
        if match is None:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first + len(found) >= _MOST_NODES:
            return None
        found += [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
    return found
