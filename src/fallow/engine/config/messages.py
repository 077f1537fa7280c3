"""Turn pydantic's errors into sentences that say what is wrong, and what was probably meant."""

import re
from collections.abc import Iterable, Iterator
from typing import get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fallow.core.did_you_mean import did_you_mean
from fallow.core.errors import WrongUsage
from fallow.core.units import printable, shortened
from fallow.core.value import value
from fallow.engine.config.base import Section, descriptions
from fallow.engine.config.model import SECTIONS, SEVERAL
from fallow.engine.config.parse_values import shown
from fallow.engine.config.toml_lines import Path

_OF_A_KEY = "[key]"  # how pydantic marks that the key of a pair is wrong, and not its value
_NEARLY_THE_SAME, _ALIKE = 0.85, 0.6
_ELSEWHERE = {
    "each": "leave it out: without together = true there is one process on each card",
    "attach": "no process can be named in a file; use fallow guard --attach PID",
    "idle_timeout": "did you mean idle_for?",
    "stuck_timeout": "did you mean stuck_for?",
    "template": "it belongs under [notices.people]",
}

_LEFT_ALONE = re.compile(r"(?:not_|exclude_?|except_?|ignore_?)(user|group|command|unit|notebook)?s?")
"""Keys of rules for what nothing stops, which is not said rule by rule."""


@value
class Fault:
    """A fault at a path of the config."""

    path: Path
    sentence: str
    suggestion: str = ""
    rests_on: tuple[Path, ...] = ()
    """Other keys that the fault depends on: if one of them is wrong itself, the fault is not reported."""
    meant: Path = ()
    """The key that was probably meant by one that does not exist; then it is not missing."""
    may_pass: bool = False
    """Whether the fault may pass by itself, as with a GPU that is not there now."""


def faults(error: ValidationError) -> Iterator[Fault]:
    """Yield everything that is wrong with the shape of the config and with single values."""
    for details in error.errors(include_url=False):
        path: Path = tuple(part for part in details["loc"] if part != _OF_A_KEY)
        sentence, suggestion = _sentence(path, details)
        word = re.fullmatch(r"did you mean (\w+)\?", suggestion) if details["type"] == "extra_forbidden" else None
        yield Fault(path, sentence, suggestion, meant=() if word is None else (*path[:-1], word[1]))


def _sentence(path: Path, details: ErrorDetails) -> tuple[str, str]:
    given = details["input"]
    match details["type"]:
        case "value_error":
            error = details["ctx"]["error"]
            return (error.sentence, error.way) if isinstance(error, WrongUsage) else (str(error), "")
        case "missing":
            return "it is missing", f"add it: {_description(path)}"
        case "extra_forbidden":
            return _unknown_key(path)
        case "literal_error" | "enum":
            choices = re.findall(r"'([^']*)'", details["ctx"]["expected"])
            return f"{shown(given)} is not known here", _did_you_mean(given, choices) or f"write {_either(choices)}"
        case "tuple_type" | "model_type" if path[0] in SECTIONS:
            return _wrong_shape(path, given)
        case _:
            return f"{shown(given)} is not a table", f'write it as {path[-1]} = {{ NAME = "value" }}'


def _wrong_shape(path: Path, given: object) -> tuple[str, str]:
    """Return the message for `[filler]` for `[[filler]]`, the other way round, or a value that is no table."""
    names = [part for part in path if isinstance(part, str)]
    several = names[0] in SEVERAL
    if len(names) > 1:
        key = path[:-1] if isinstance(path[-1], int) else path
        several = inner_section(section_of(key)[0], names[-1])[1]
    name = ".".join(names)
    if several:
        return "there may be several of it", f"write it as [[{name}]]"
    what = "it can be there only once" if isinstance(given, list) else f"{shown(given)} is not a table"
    return what, f"write it as [{name}]"


def _unknown_key(path: Path) -> tuple[str, str]:
    word = str(path[-1])
    if len(path) == 1:
        owners = [_heading(name) for name, section in SECTIONS.items() if word in _keys(section)]
        belongs = f"it belongs under {_either(owners)}" if owners else f"there are {', '.join(SECTIONS)}"
        return "there is no such section", _did_you_mean(word, SECTIONS) or belongs
    section, heading = section_of(path)
    here = f"there is no such key in {heading}"
    owners = [_heading(name) for name, other in SECTIONS.items() if word in _keys(other)]
    left_alone = _LEFT_ALONE.fullmatch(word.replace("-", "_"))
    if left_alone is not None and heading in ("[[idle]]", "[[cluster.idle]]"):
        return here, f"write {left_alone[1] or 'user'}s under [protect]"
    return here, (
        _ELSEWHERE.get(word)
        or _did_you_mean(word, _keys(section), _NEARLY_THE_SAME)
        or (owners and f"it belongs under {_either(owners)}")
        or _did_you_mean(word, _keys(section))
        or f"there are {', '.join(_keys(section))}"
    )


def section_of(path: Path) -> tuple[type[Section], str]:
    """Return the section that a key is in, which may be one within another, and its heading."""
    section, heading = SECTIONS[str(path[0])], _heading(str(path[0]))
    for part in path[1:-1]:
        if isinstance(part, str) and part in section.model_fields:
            inner, several = inner_section(section, part)
            if inner is not None:
                name = f"{heading.strip('[]')}.{part}"
                section, heading = inner, f"[[{name}]]" if several else f"[{name}]"
    return section, heading


def inner_section(section: type[Section], key: str) -> tuple[type[Section] | None, bool]:
    """Return the section within a section that a key is, or None; and whether there may be several of it."""
    kind = section.model_fields[key].annotation
    several = get_origin(kind) is tuple
    found = get_args(kind)[0] if several else kind
    return (found if isinstance(found, type) and issubclass(found, Section) else None), several


def _did_you_mean(given: object, known: Iterable[str], likeness: float = _ALIKE) -> str:
    if not isinstance(given, str):
        return ""
    return did_you_mean(given.replace("-", "_"), known, likeness)


def _keys(section: type[Section]) -> list[str]:
    return [field.alias or name for name, field in section.model_fields.items()]


def _description(path: Path) -> str:
    said = descriptions(section_of(path)[0]).get(str(path[-1]), "")
    return f"{said[:1].lower()}{said[1:].rstrip('.')}"


def _heading(section: str) -> str:
    return f"[[{section}]]" if section in SEVERAL else f"[{section}]"


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def in_words(path: Path) -> str:
    """Return a path as `filler[2].idle_for`: counted from 1, unusual keys in quotes."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part + 1}]"
            continue
        bare = re.fullmatch(r"[A-Za-z0-9_-]+", part, re.ASCII)
        word = shortened(part, 40) if bare else f'"{shortened(printable(part), 40)}"'
        text += f".{word}" if text else word
    return text
