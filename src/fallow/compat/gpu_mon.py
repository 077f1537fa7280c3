"""`gpu_mon`: its INI file is translated into a fallow.toml, whose fillers run with the loop of `fallow fill`."""

import argparse
import json
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from configparser import ConfigParser, Error
from typing import TypeVar

from fallow.core.arguments import ArgumentParser
from fallow.core.errors import ConfigWrong
from fallow.core.mistake import Mistake
from fallow.core.selection import select
from fallow.core.units import duration_for_people, is_number, printable
from fallow.core.value import replace
from fallow.engine.allocate.usable_gpus import gpus_to_fill
from fallow.engine.config.load import understand
from fallow.engine.config.location import read
from fallow.engine.fill.loop import fill_loop
from fallow.engine.history.run import open_run
from fallow.engine.machine.world import World
from fallow.policies.fill import FillRules
from fallow.readers.accounts import from_home
from fallow.readers.terminals import LEAST_IDLE_S

_KEYS = {
    "defaults": ("interval_seconds",),
    "gpu": ("gpus", "ignore_programs"),
    "process": ("dir", "cmd", "gpus", "log"),
    "tty": ("enabled", "whitelist", "idle_seconds"),
}
_LONGEST_NAME = 40
T = TypeVar("T")


def main(words: Sequence[str], world: World, tell: Callable[[str], None]) -> int:
    """Fill GPUs as the file says until a person ends it, or only print the fallow.toml that says the same."""
    args = _options(words)
    path = from_home(args.config)
    text = as_toml(read(path, "--config FILE"), path, world.user)
    if args.print_config:
        print(text, end="")
        return 0
    config = understand(text, f"{path} (--print-config)")
    gap_s, here = FillRules().longest_gap_s, gpus_to_fill(world, None, tell)
    slots = [
        (replace(filler.spec(config.terminals, gap_s), user=None), select(filler.gpus, here))
        for filler in config.fillers
    ]
    with open_run(world, tell) as run:
        loop = fill_loop(run, slots)
        for slot in loop.slots:
            quiet = duration_for_people(slot.spec.rules.idle_for_s)
            tell(f"{slot.name}: {printable(shlex.join(slot.spec.command))} after {quiet} of quiet")
        loop.run()
    return 0


def as_toml(text: str, path: str, user: str) -> str:
    """Return the fallow.toml that says the same; `user` is the user who called gpu_mon, as whom its programs ran."""
    parser = ConfigParser(interpolation=None)
    try:
        parser.read_string(text, printable(path))
        tables = [f"[terminals]\n{_table(_people(parser))}"]
        for number, section in enumerate(_programs(parser)):
            filler = {**_filler(parser, section), "user": user, "priority": -number}
            tables.append(f"[[filler]]\n{_table(filler)}")
    except (Error, ValueError) as error:
        sentence = printable(" ".join(str(error).split()))
        raise ConfigWrong(printable(path), [Mistake(sentence)]) from None
    return "\n".join(tables)


def _programs(parser: ConfigParser) -> list[str]:
    """Return the sections of programs; raise ValueError if there is none, or anything that gpu_mon does not have."""
    keys = [(name, key) for name in parser.sections() for key in parser[name]]
    unknown = [f"[{name}] {key}" for name, key in keys if key not in _KEYS.get(name.partition("-")[0], ())]
    if unknown:
        raise ValueError(f"gpu_mon does not have {', '.join(unknown)}")
    found = [name for name in parser.sections() if name.startswith("process-")]
    if not found:
        raise ValueError("there is no [process-…], so nothing would ever run")
    return found


def _people(parser: ConfigParser) -> Mapping[str, object]:
    if not _read(parser, "tty", "enabled", "False", _truth):
        return {"users": "ignore"}
    away = _read(parser, "tty", "whitelist", "", _listed)
    idle_s = max(int(LEAST_IDLE_S), _read(parser, "tty", "idle_seconds", "300", _seconds))
    return {"users": "yield", "user_idle": f"{idle_s}s", "ignore_user": away}


def _filler(parser: ConfigParser, section: str) -> Mapping[str, object]:
    gpus = _read(parser, section, "gpus", "ALL", _gpus)
    places = {key: parser.get(section, name, fallback="") for key, name in (("cwd", "dir"), ("log", "log"))}
    return {
        "name": re.sub(r"[^A-Za-z0-9._-]+", "-", section)[:_LONGEST_NAME],
        "command": _read(parser, section, "cmd", "", shlex.split),
        "gpus": ",".join(gpus),
        "together": gpus == ["all"] or len(gpus) > 1,
        "idle_for": f"{_read(parser, 'defaults', 'interval_seconds', '10', _seconds)}s",
        "ignore": sorted(frozenset.intersection(*(_ignored(parser, gpu) for gpu in gpus))),
        **{key: os.path.abspath(from_home(place)) for key, place in places.items() if place},
    }


def _ignored(parser: ConfigParser, gpu: str) -> frozenset[str]:
    """Return the programs that are ignored on a GPU, or on all."""
    watched = [name for name in parser.sections() if name.startswith("gpu-")]
    here = [name for name in watched if {"all", gpu} & {*_read(parser, name, "gpus", "ALL", _gpus)}]
    return frozenset(word for name in here for word in _read(parser, name, "ignore_programs", "", _listed))


def _read(parser: ConfigParser, section: str, key: str, usual: str, convert: Callable[[str], T]) -> T:
    try:
        return convert(parser.get(section, key, fallback=usual))
    except ValueError as error:
        raise ValueError(f"[{section}] {key}: {error}") from None


def _gpus(text: str) -> list[str]:
    if not re.fullmatch(r"all|\s*\d+\s*(,\s*\d+\s*)*", text.lower(), re.ASCII):
        raise ValueError("write indices, as 0,1, or ALL")
    return _listed(text.lower())


def _seconds(text: str) -> int:
    if not is_number(text):
        raise ValueError("write whole seconds, as 10")
    return int(text)


def _truth(text: str) -> bool:
    if text.lower() not in ConfigParser.BOOLEAN_STATES:
        raise ValueError("write True or False")
    return ConfigParser.BOOLEAN_STATES[text.lower()]


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _table(table: Mapping[str, object]) -> str:
    return "".join(f"{key} = {json.dumps(item, ensure_ascii=False)}\n" for key, item in table.items())


def _options(words: Sequence[str]) -> argparse.Namespace:
    what = "Run programs on idle GPUs, and end them when somebody else opens one or is at a terminal."
    parser = ArgumentParser.of_older_tool("gpu_mon", what)
    add = parser.add_argument
    add("-c", "--config", default="~/.config/gpu_mon.conf", metavar="FILE", help="the INI file")
    add("--print-config", action="store_true", help="print the fallow.toml that says the same, and do nothing else")
    return parser.parse_args(words)
