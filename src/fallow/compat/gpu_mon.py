"""`gpu_mon`: its INI file is translated into a fallow.toml, whose fillers run with the loop of `fallow fill`."""

import argparse
import configparser
import json
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fallow.core.arguments import ArgumentParser
from fallow.core.errors import ConfigWrong, WrongUsage
from fallow.core.gpu import Gpu
from fallow.core.mistake import Mistake
from fallow.core.units import duration_for_people, printable
from fallow.core.value import replace
from fallow.engine.allocate.usable_gpus import gpus_to_fill
from fallow.engine.config.fillers import Filler
from fallow.engine.config.load import understand
from fallow.engine.config.location import read
from fallow.engine.config.model import Config
from fallow.engine.fill.filler import FillerSpec
from fallow.engine.fill.loop import fill_loop
from fallow.engine.history.run import open_run
from fallow.engine.machine.world import World
from fallow.policies.fill import FillRules
from fallow.readers.accounts import from_home

_KEYS = {
    "defaults": ("interval_seconds",),
    "gpu": ("gpus", "ignore_programs"),
    "process": ("dir", "cmd", "gpus", "log"),
    "tty": ("enabled", "whitelist", "idle_seconds"),
}
_LONGEST_NAME = 40
Table = Mapping[str, str]


def main(words: Sequence[str], world: World, tell: Callable[[str], None]) -> int:
    """Fill GPUs as the file says until a person ends it, or only print the fallow.toml that says the same."""
    args = _options(words)
    path = from_home(args.config)
    text = as_toml(_sections(read(path, "--config FILE"), path), world.user)
    if args.print_config:
        print(text, end="")
        return 0
    config = understand(text, f"{path} (--print-config)")
    here = gpus_to_fill(world, None, tell)
    slots = [(_spec(config, filler), gpus) for filler in config.fillers if (gpus := _gpus(filler, here, tell))]
    if not slots:
        raise WrongUsage("none of the GPUs that the file names is shown here")
    with open_run(world, tell) as run:
        loop = fill_loop(run, slots)
        for slot in loop.slots:
            quiet = duration_for_people(slot.spec.rules.idle_for_s)
            tell(f"{slot.name}: {printable(shlex.join(slot.spec.command))} after {quiet} of quiet")
        loop.run()
    return 0


def as_toml(sections: Mapping[str, Table], user: str) -> str:
    """Return the fallow.toml that says the same; `user` is the user who called gpu_mon, as whom its programs ran."""
    tty = sections.get("tty", {})
    people: dict[str, Any] = {"users": "ignore"}
    if configparser.ConfigParser.BOOLEAN_STATES.get(tty.get("enabled", "").lower()):
        idle = _seconds(tty.get("idle_seconds") or "300")
        people = {"users": "yield", "user_idle": idle, "ignore_user": _listed(tty.get("whitelist", ""))}
    tables = ["[terminals]", *_lines(people)]
    programs = [(name, table) for name, table in sections.items() if name.startswith("process-")]
    for number, (name, table) in enumerate(programs):
        gpus = (table.get("gpus") or "ALL").lower()
        filler = {
            "name": re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:_LONGEST_NAME],
            "command": _command(table.get("cmd", "")),
            "user": user,
            "gpus": gpus,
            "together": gpus == "all" or "," in gpus,
            "priority": -number,
            "idle_for": _seconds(sections.get("defaults", {}).get("interval_seconds") or "10"),
            "ignore": sorted(_ignored(sections, gpus)),
        }
        places = {"cwd": table.get("dir"), "log": table.get("log")}
        filler |= {key: os.path.abspath(from_home(place)) for key, place in places.items() if place}
        tables += ["", "[[filler]]", *_lines(filler)]
    return "\n".join(tables) + "\n"


def _sections(text: str, path: str) -> Mapping[str, Table]:
    """Return the sections of the file; raise ConfigWrong if a section or a key is none of gpu_mon's."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text, printable(path))
        parser.getboolean("tty", "enabled", fallback=False)
    except (configparser.Error, ValueError) as error:
        raise ConfigWrong(printable(path), [Mistake(printable(" ".join(str(error).split())))]) from None
    sections = {name: dict(parser[name]) for name in parser.sections()}
    wrong = [
        Mistake("gpu_mon has no such key", f"[{name}] {key}")
        for name, table in sections.items()
        for key in table
        if key not in _KEYS.get(name.partition("-")[0], ())
    ]
    wrong += [
        Mistake("write indices, as 0,1, or ALL", f"[{name}] gpus")
        for name, table in sections.items()
        if not re.fullmatch(r"all|[\d,\s]*", table.get("gpus", ""), re.ASCII | re.IGNORECASE)
    ]
    if not any(name.startswith("process-") for name in sections):
        wrong.append(Mistake("there is no [process-…], so nothing would ever run"))
    if wrong:
        raise ConfigWrong(printable(path), wrong)
    return sections


def _ignored(sections: Mapping[str, Table], gpus: str) -> frozenset[str]:
    """Return the programs that are ignored on all of these GPUs."""
    parts = [table for name, table in sections.items() if name.startswith("gpu-")]

    def ignored_on(gpu: str) -> frozenset[str]:
        on = [part for part in parts if {"all", gpu} & {*_listed((part.get("gpus") or "ALL").lower())}]
        return frozenset(word for part in on for word in _listed(part.get("ignore_programs", "")))

    return frozenset.intersection(*map(ignored_on, _listed(gpus)))


def _spec(config: Config, filler: Filler) -> FillerSpec:
    """Return the filler as the fill loop takes it, as the user who called gpu_mon."""
    return replace(filler.spec(config.terminals, FillRules().longest_gap_s), user=None)


def _gpus(filler: Filler, here: Sequence[Gpu], tell: Callable[[str], None]) -> tuple[Gpu, ...]:
    """Return those of the filler's GPUs that the machine has."""
    shown = [str(gpu.index) for gpu in here]
    wanted = shown if filler.gpus == "all" else filler.gpus.split(",")
    if missing := [gpu for gpu in wanted if gpu not in shown]:
        tell(f"[{filler.name}] goes without GPU {', '.join(missing)}, which is not shown here")
    return tuple(gpu for gpu in here if str(gpu.index) in wanted)


def _command(line: str) -> list[str] | str:
    try:
        return shlex.split(line)
    except ValueError:  # which the check of the config explains
        return line


def _seconds(text: str) -> str:
    return f"{text}s" if text.isdigit() else text


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {json.dumps(item, ensure_ascii=False)}" for key, item in table.items()]


def _options(words: Sequence[str]) -> argparse.Namespace:
    what = "Run programs on idle GPUs, and end them when somebody else opens one or is at a terminal."
    parser = ArgumentParser.of_older_tool("gpu_mon", what)
    add = parser.add_argument
    add("-c", "--config", default="~/.config/gpu_mon.conf", metavar="FILE", help="the INI file")
    add("--print-config", action="store_true", help="print the fallow.toml that says the same, and do nothing else")
    return parser.parse_args(words)
