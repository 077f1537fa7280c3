"""`fallow COMMAND …`: load the one command that is named, and turn a failure into a sentence and an exit code."""

import argparse
import gc
import importlib
import io
import os
import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from types import ModuleType

from fallow.core.did_you_mean import did_you_mean
from fallow.core.errors import ConfigWrong, FallowError, NotEnoughGpus, PartMissing, WrongUsage
from fallow.core.ports import Clock
from fallow.engine.machine.clock import SystemClock
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import SIMULATE_DEFAULT, Parser, common
from fallow.interfaces.stderr import Stderr

COMMANDS = {
    "status": "show each GPU: what it does, for how long, and who holds it",
    "top": "show all GPUs and jobs live; keys protect, stop and explain them",
    "pick": "print GPUs that are free, for a shell",
    "run": "run a command on free GPUs, and stop it if it is idle or hangs",
    "guard": "wait until all work has ended, then act: shut down, run a command",
    "burn": "load GPUs: occupy memory, keep them warm, or test them",
    "fill": "run a command on idle GPUs, and leave as soon as somebody comes",
    "up": "do all this as one daemon, from one config file; show a web page",
    "stop": "stop jobs by hand, through what started them; see their GPUs free",
    "wake": "let parked jobs, and what was stopped in a cluster, run again",
    "idle": "tell other programs whether GPUs are idle, by the exit code",
    "protect": "keep fallow from stopping a GPU's jobs, a process or the machine",
    "check": "check a config file, and print every mistake in it",
    "report": "add up the hours of each activity, and what idle GPUs cost",
    "doctor": "check the installation and the permissions that it needs",
    "why": "explain why a GPU or process is judged as it is, and what was done",
    "demo": "show what fallow does, on simulated GPUs, in about a minute",
    "slurm": "for a Slurm node's prolog and health check: check its GPUs",
    "completion": "print what makes bash, zsh or fish complete fallow's words",
    "compat": "run an older tool's command line: gpuselect, gpu_mon and others",
}
HELP = "help"
SHOWS_HELP = "show the help of a command"
_EXAMPLES = """\
  fallow status
  fallow run -- python train.py
  fallow help pick"""
_TAKE_COMMAND = ("run", "fill", "compat")
_MACHINE = r"\d+x\w+(,(\d+x)?\w+)*"
_KILLED_BY = 128
_SIGPIPE = 13


def main(argv: Sequence[str], clock: Clock | None = None) -> int:
    """Run one command, and return its exit code."""
    clock = SystemClock() if clock is None else clock
    voice = Stderr(clock.wall_s)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a locale without our letters
    try:
        code = _main(list(argv), voice, clock)
        print(end="", flush=True)
    except FallowError as error:
        voice.error(str(error))
        if isinstance(error, NotEnoughGpus):
            from fallow.interfaces.render import refused_text

            for line in refused_text.lines(error.refused):
                voice.note(line)
        if isinstance(error, ConfigWrong) and not error.is_about_the_file:
            for mistake in error.mistakes:
                voice.note(mistake.in_file(error.file))
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the interpreter's last flush
        return _KILLED_BY + _SIGPIPE
    except ModuleNotFoundError as error:
        if (error.name or "fallow").startswith("fallow"):
            return _own_mistake(error, voice)
        missing = PartMissing.of("this", error.name or "")
        voice.error(str(missing))
        return missing.exit_code
    except Exception as error:  # noqa: BLE001  a person gets a sentence; -v gets the rest
        return _own_mistake(error, voice)
    return code


def _own_mistake(error: Exception, voice: Stderr) -> int:
    if voice.verbose:
        raise error
    voice.error(f"internal error: {type(error).__name__}: {error} (-v shows where)")
    return FallowError.exit_code


def _main(argv: list[str], voice: Stderr, clock: Clock) -> int:
    before, name, after, command = _split(_help_as_option(argv))
    words = [*before, *after]
    voice.as_json = "--log-format=json" in words or ("--log-format", "json") in pairwise(words)
    shared = common()
    if name is None or not {"-h", "--help", "-V", "--version"}.isdisjoint(before):
        return _without_command(before, shared)
    if name not in COMMANDS:
        way = did_you_mean(name, (*COMMANDS, HELP)) or f"there are {', '.join(COMMANDS)}"
        raise WrongUsage(f"there is no command {name!r}; {way} (see: fallow --help)")
    module, parser = command_of(name, shared)
    everywhere = Parser("fallow", "", "", [shared]).parse_args(before)
    try:
        args = parser.parse_args(after, everywhere, command)
    except SystemExit:  # the help was asked for, and has been printed
        return 0
    if command is not None and name not in _TAKE_COMMAND:
        raise WrongUsage(f"fallow {name} runs no command; leave out -- and what follows")
    args.command = command
    args.words = words
    voice.verbose = getattr(args, "verbose", False)
    world = World(os.environ, simulate=getattr(args, "simulate", None), clock=clock)
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    code: int = module.run(args, world, voice)
    return code


def command_of(name: str, shared: argparse.ArgumentParser) -> tuple[ModuleType, Parser]:
    """Load a command; return its module, and its parser with the shared options."""
    module = importlib.import_module(f"fallow.interfaces.cli.{name}")
    parser = Parser(f"fallow {name}", module.ABOUT, module.EXAMPLES, [shared])
    module.add_options(parser)
    return module, parser


def _split(argv: list[str]) -> tuple[list[str], str | None, list[str], list[str] | None]:
    """Return the options before the command's name, the name, its own words, and the program after `--`."""
    command = None
    at = _next_word(argv, 0)
    if argv[at : at + 1] == ["compat"]:
        at = _next_word(argv, at + 1) + 1  # everything after the tool's name belongs to the tool
        argv, command = argv[:at], argv[at:]
    elif "--" in argv:
        at = argv.index("--")
        argv, command = argv[:at], argv[at + 1 :]
    words = _with_values(argv)
    at = _next_word(words, 0)
    name = words[at] if at < len(words) else None
    return words[:at], name, words[at + 1 :], command


def _help_as_option(argv: list[str]) -> list[str]:
    """Return `CMD --help` for `help CMD`; never more: nothing is run by it."""
    at = _next_word(argv, 0)
    if argv[at : at + 1] != [HELP]:
        return argv
    asked = [word for word in argv[at + 1 :] if word != HELP]
    if len(asked) > 1 + (asked[:1] == ["compat"]):
        raise WrongUsage("help takes one command; write it as: fallow help run")
    return [*argv[:at], *asked, "--help"]


def _with_values(words: list[str]) -> list[str]:
    """Join --simulate with its machine, and give a bare --watch an empty value: neither must take the next word."""
    joined: list[str] = []
    at = 0
    while at < len(words):
        bare = words[at] == "--simulate"
        named = bare and _names_machine(words, at + 1)
        word = "--watch=" if words[at] == "--watch" else words[at]
        joined.append(f"--simulate={words[at + 1] if named else SIMULATE_DEFAULT}" if bare else word)
        at += 2 if named else 1
    return joined


def _names_machine(words: list[str], at: int) -> bool:
    """Return whether the word can only be a machine such as 4xA100: no command, GPU or subject looks like that."""
    return at < len(words) and re.fullmatch(_MACHINE, words[at], re.ASCII) is not None


def _next_word(words: list[str], at: int) -> int:
    """Return the index of the first word after the options that begin there."""
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        takes_next = words[at] == "--log-format" or (words[at] == "--simulate" and _names_machine(words, at + 1))
        at += 2 if takes_next else 1
    return at


def without_command(shared: argparse.ArgumentParser) -> Parser:
    """Return the parser of what can be typed without a command."""
    listed = "\n".join(f"  {name:<10}  {what}" for name, what in {**COMMANDS, HELP: SHOWS_HELP}.items())
    parser = Parser("fallow", f"One tool for idle GPUs.\n\ncommands:\n{listed}", _EXAMPLES, [shared])
    parser.usage = "fallow COMMAND [OPTIONS]"
    parser.add_argument("-V", "--version", action="store_true", help="print the version of fallow")
    return parser


def _without_command(options: list[str], shared: argparse.ArgumentParser) -> int:
    parser = without_command(shared)
    try:
        args = parser.parse_args(options)
    except SystemExit:  # as above
        return 0
    if getattr(args, "version", False):
        from fallow.core.version import __version__

        print(f"fallow {__version__}")
        return 0
    if options:
        raise WrongUsage(f"no command given; there are {', '.join(COMMANDS)} (see: fallow --help)")
    parser.print_help()
    return 0
