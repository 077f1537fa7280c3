"""Suggest the word that was probably meant by one that does not exist."""

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Return `did you mean X?` for the known word that is most like this one, or nothing if none is alike."""
    alike = most_alike(word, known, likeness)
    return f"did you mean {alike}?" if alike else ""


def most_alike(word: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Return the known word that is most like this one, or nothing if none is alike."""
    from difflib import get_close_matches  # noqa: PLC0415  only a mistake pays for it

    choices = {each.lower(): each for each in known}
    typed = word.strip().lower()
    alike = get_close_matches(typed, choices, n=1, cutoff=likeness)
    return choices[alike[0]] if alike else ""
