"""Load a config from a file, or raise ConfigWrong with every mistake in it."""

from collections.abc import Callable, Collection, Iterable, Iterator

from pydantic import ValidationError

from fallow.core.errors import ConfigWrong
from fallow.core.mistake import Mistake
from fallow.core.units import printable
from fallow.engine.config.base import Section
from fallow.engine.config.crosschecks import Numbers, contradictions
from fallow.engine.config.location import read
from fallow.engine.config.messages import Fault, faults, in_words, inner_section, section_of
from fallow.engine.config.model import SECTIONS, SEVERAL, Config
from fallow.engine.config.parse_toml import parsed
from fallow.engine.config.toml_lines import Lines, Path, line_of
from fallow.engine.config.types import is_time

Values = dict[str, object]
Tell = Callable[[Mistake], None]
Check = Callable[[Config, Numbers], Iterable[Fault]]
_CLUSTER: Path = ("cluster",)
_OF_A_CLUSTER_RULE = 3  # names in its path: cluster, idle, its number
_OF_AN_ACTION = 4  # names in the path of an action: guard, its number, action, its position
_SECONDS = frozenset({"grace", "countdown", "suspend_within"})
"""Times that are never counted in minutes, as on the command line."""
_NO_ACTION = "notify:none://"
_STAND_INS: Values = {"name": "unnamed", "command": ["true"], "action": [_NO_ACTION], "idle_for": "1d"}


def load(path: str, check: Check | None = None, let_pass: Tell | None = None, remark: Tell | None = None) -> Config:
    """Return the config in a file; raise ConfigWrong, with all mistakes, if it has any.

    `check` finds faults that the text does not show, such as what this machine cannot do. A fault that may pass by
    itself goes to `let_pass`, if that is given, and is then no mistake. `remark` gets what is no mistake, but may
    mean something else than it seems to.
    """
    return understand(read(path), path, check, let_pass, remark)


def understand(
    text: str,
    path: str,
    check: Check | None = None,
    let_pass: Tell | None = None,
    remark: Tell | None = None,
) -> Config:
    """Return the config that a text means; the path is for the messages."""
    file = printable(path)
    found = parsed(text)
    if isinstance(found, Mistake):
        raise ConfigWrong(file, [found])
    values, lines = found
    if remark is not None:
        for each in _plain_times(values):
            remark(_placed(each, values, lines))
    wrong: list[Fault] = []
    numbers: Numbers = {name: range(_count(values.get(name))) for name in SEVERAL}
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        wrong = list(faults(error))
        sound, numbers = _sound(values, {_wrong_part(fault.path, values) for fault in wrong})
        config = Config.model_validate(sound)
    meant = {fault.meant for fault in wrong if fault.meant}
    wrong = [fault for fault in wrong if fault.path not in meant or fault.path in lines]
    bad = [*(_wrong_part(fault.path, values) for fault in wrong), *(_key(path) for path in meant)]
    for further in (contradictions, check):
        wrong += [] if further is None else [each for each in further(config, numbers) if not _spoilt(each, bad)]
    if let_pass is not None:
        for fault in wrong:
            if fault.may_pass:
                let_pass(_placed(fault, values, lines))
        wrong = [fault for fault in wrong if not fault.may_pass]
    if wrong:
        mistakes = (_placed(fault, values, lines) for fault in wrong)
        raise ConfigWrong(file, sorted(mistakes, key=lambda mistake: (mistake.line or 0, mistake.where)))
    return config


def _sound(values: Values, bad: Collection[Path]) -> tuple[Values, Numbers]:
    """Return the values without the wrong parts, and the positions of the rest, to find further mistakes in it."""
    sound: Values = {}
    numbers: dict[str, list[int]] = {name: [] for name in SEVERAL}
    for name, given in values.items():
        if name not in SECTIONS or (name,) in bad:
            continue
        if name in SEVERAL and isinstance(given, list):
            numbers[name] = [number for number in range(len(given)) if (name, number) not in bad]
            sound[name] = [_without(given[number], (name, number), bad) for number in numbers[name]]
        else:
            sound[name] = _without(given, (name,), bad)
    return sound, numbers


def _without(table: object, path: Path, bad: Collection[Path]) -> Values:
    """Return a section without its wrong keys; required keys get a stand-in."""
    given = table if isinstance(table, dict) else {}
    kept = {key: item for key, item in given.items() if (*path, key) not in bad}
    if path == _CLUSTER and isinstance(rules := kept.get("idle"), list):
        kept["idle"] = [_without(rule, (*path, "idle", number), bad) for number, rule in enumerate(rules)]
    if isinstance(actions := kept.get("action"), list):
        kept["action"] = [
            _NO_ACTION if (*path, "action", place) in bad else action for place, action in enumerate(actions)
        ]
    needed = {key: item for key, item in _STAND_INS.items() if (*path, key) in bad}
    return kept | {key: item for key, item in needed.items() if _is_needed((*path, key))}


def _plain_times(values: Values) -> Iterator[Fault]:
    """Yield times without a unit, which are seconds but might be meant as minutes."""
    for name, given in values.items():
        if name in SECTIONS:
            yield from _plain_times_in(SECTIONS[name], (name,), given)


def _plain_times_in(section: type[Section], path: Path, given: object) -> Iterator[Fault]:
    if isinstance(given, list):
        for number, table in enumerate(given):
            yield from _plain_times_in(section, (*path, number), table)
    if not isinstance(given, dict):
        return
    for name, field in section.model_fields.items():
        inner, _ = inner_section(section, name)
        if inner is not None:
            yield from _plain_times_in(inner, (*path, name), given.get(name))
            continue
        written = _plain_number(given.get(name))
        if written and name not in _SECONDS and is_time(field.annotation, field.metadata):
            sentence = f"{written} without a unit means {written} seconds"
            yield Fault((*path, name), sentence, f'write "{written}s", or "{written}m" for minutes')


def _plain_number(given: object) -> str:
    """Return a number as written, in quotes or not; empty for anything else, and for zero, which needs no unit."""
    text = "" if isinstance(given, bool) or not isinstance(given, int | float | str) else str(given).strip()
    digits = text.replace(".", "", 1)
    return text if digits.isascii() and digits.isdigit() and digits.strip("0") else ""


def _is_needed(path: Path) -> bool:
    field = section_of(path)[0].model_fields.get(str(path[-1]))
    return field is not None and field.is_required()


def _key(path: Path) -> Path:
    """Return the path of the key that a fault is in: `filler[2].env`, not one variable of it."""
    if path[:2] == (*_CLUSTER, "idle") and len(path) > _OF_A_CLUSTER_RULE:
        return path[: _OF_A_CLUSTER_RULE + 1]
    return path[:3] if path[0] in SEVERAL else path[:2]


def _wrong_part(path: Path, values: Values) -> Path:
    """Return the path of what is left out to go on: the key, or one action of a list of actions."""
    match path:
        case ("guard", int(number), "action", int(place), *_):
            guards = values["guard"]
            guard = guards[number] if isinstance(guards, list) else None
            if isinstance(guard, dict) and isinstance(guard.get("action"), list):
                return ("guard", number, "action", place)
        case _:
            pass
    return _key(path)


def _spoilt(fault: Fault, bad: Collection[Path]) -> bool:
    paths = (fault.path, *fault.rests_on)
    return any(_key(path) in bad or path[:_OF_AN_ACTION] in bad for path in paths)


def _count(given: object) -> int:
    return len(given) if isinstance(given, list) else 0


def _placed(fault: Fault, values: Values, lines: Lines) -> Mistake:
    path = _as_written(fault.path, values)
    return Mistake(fault.sentence, in_words(path), line_of(lines, path), fault.suggestion)


def _as_written(path: Path, values: object) -> Path:
    """Return the path without the number of an item that is written without the brackets of its list."""
    for at, part in enumerate(path):
        if isinstance(part, int):
            if not isinstance(values, list):
                return path[:at]
            values = values[part]
        elif isinstance(values, dict):
            values = values.get(part)
    return path
