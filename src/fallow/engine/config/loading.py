"""From a file to a config, or to every mistake in it at once."""

from collections.abc import Iterable

from pydantic import ValidationError

from fallow.core.errors import ConfigWrong
from fallow.core.mistake import Mistake
from fallow.core.units import printable
from fallow.engine.config.complaints import Fault, faults, in_words
from fallow.engine.config.crosschecks import Numbers, contradictions
from fallow.engine.config.model import SECTIONS, SEVERAL, Config
from fallow.engine.config.places import read
from fallow.engine.config.positions import Path, Positions
from fallow.engine.config.syntax import parsed

Values = dict[str, object]


def load(path: str) -> Config:
    """The config in a file; ConfigWrong, with all mistakes, if it has any."""
    return understand(read(path), path)


def understand(text: str, path: str) -> Config:
    """The config that a text is; the path is for the sentences."""
    file = printable(path)
    found = parsed(text)
    if isinstance(found, Mistake):
        raise ConfigWrong(file, [found])
    values, positions = found
    wrong: list[Fault] = []
    numbers: Numbers = {name: range(_count(values.get(name))) for name in SEVERAL}
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        wrong = list(faults(error))
        sound, numbers = _sound(values, [fault.path for fault in wrong])
        config = Config.model_validate(sound)
    wrong += contradictions(config, numbers)
    if wrong:
        mistakes = (_placed(fault, positions) for fault in wrong)
        raise ConfigWrong(file, sorted(mistakes, key=lambda mistake: (mistake.line or 0, mistake.column or 0)))
    return config


def _sound(values: Values, wrong: Iterable[Path]) -> tuple[Values, Numbers]:
    """The sections without a mistake in them, and their places in the file, to look for contradictions among them."""
    bad = {path[:2] if path[0] in SEVERAL else path[:1] for path in wrong}
    sound: Values = {}
    numbers: dict[str, list[int]] = {name: [] for name in SEVERAL}
    for name, given in values.items():
        if name not in SECTIONS or (name,) in bad:
            continue
        if name not in SEVERAL or not isinstance(given, list):
            sound[name] = given
            continue
        numbers[name] = [number for number in range(len(given)) if (name, number) not in bad]
        sound[name] = [given[number] for number in numbers[name]]
    return sound, numbers


def _count(given: object) -> int:
    return len(given) if isinstance(given, list) else 0


def _placed(fault: Fault, positions: Positions) -> Mistake:
    path = fault.path
    # An item that stands without the brackets of its list has no place of its own.
    while path and isinstance(path[-1], int) and path not in positions:
        path = path[:-1]
    place = positions.nearest(path)
    return Mistake(fault.sentence, in_words(path), place.line, place.column, fault.suggestion)
