"""`fallow VERB …`: find the verb, load only that, turn failures into a sentence and an exit code."""

import argparse
import errno
import gc
import importlib
import os
import re
from collections.abc import Sequence
from itertools import pairwise

from fallow.core.errors import (
    ConfigWrong,
    FallowError,
    NotEnoughGpus,
    PartMissing,
    WrongUsage,
)
from fallow.engine.machine.clock import SystemClock
from fallow.engine.machine.inherited_environment import given_environ
from fallow.engine.machine.world import World
from fallow.interfaces.cli import streams
from fallow.interfaces.cli.limits import limit_in_words
from fallow.interfaces.cli.options import (
    SIMULATE_DEFAULT,
    Parser,
    common,
    did_you_mean,
)
from fallow.interfaces.stderr import Stderr

VERBS = {
    "status": "each GPU: free, filled, busy, idle, stuck or unknown; for how long; who holds it",
    "pick": "idle GPUs, printed for a shell",
    "run": "claim idle GPUs and run a command on them; stop it if it idles or hangs",
    "guard": "wait for work, then for its end, then act: end, signal, command, shutdown, reboot",
    "burn": "a built-in load: hold memory, keep GPUs warm, or test them hard and check their sums",
    "fill": "run a command on idle GPUs; give them back at the first sign of anybody",
    "up": "all of it as one daemon, from one config; watches and shows without one",
    "reload": "have the daemon load its config anew, and say what came of it",
    "protect": "leave this alone until then",
    "check": "a config, with every mistake in it at once",
    "report": "the hours that each GPU was free, filled, busy, idle or stuck, and what the idle ones cost",
    "doctor": "the installation and every right that it needs: ok, lacking or broken",
    "why": "the evidence for the last verdict on a GPU or a process",
    "demo": "the whole story on simulated GPUs, with real processes, in about a minute",
    "compat": "the command line of an older tool: gpuselect, gpu_mon, gpu_sentinel and others",
}
_EXAMPLES = """\
  fallow status
  fallow run -- python train.py
  fallow pick --help"""
_TAKE_COMMAND = ("run", "fill", "compat")
_WITHOUT_RESULT = ("run", "guard", "fill", "up", "compat")  # what they print is not theirs
_MACHINE = r"\d{1,2}x\w+(,(\d{1,2}x)?\w+)*"
_KILLED_BY = 128
_SIGPIPE = 13


def main(argv: Sequence[str]) -> int:
    """Run one verb; the exit code."""
    voice = Stderr(SystemClock().wall_s)
    streams.prepare()
    try:
        code = _main(list(argv), voice)
        streams.flush()
    except FallowError as error:
        voice.error(str(error))
        if isinstance(error, NotEnoughGpus):
            for label, why in error.refused.items():
                voice.note(f"GPU {label}: {why}")
        if isinstance(error, ConfigWrong):
            for mistake in error.mistakes:
                voice.note(mistake.in_file(error.file))
        return error.exit_code
    except BrokenPipeError:
        streams.throw_away()
        return _KILLED_BY + _SIGPIPE
    except OSError as error:
        if not streams.cannot_print(error):
            return _own_mistake(error, voice)
        streams.throw_away()
        voice.error(f"the result cannot be printed: {error.strerror}")
        return FallowError.exit_code
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
    limit = limit_in_words(error)
    if limit is not None:
        voice.error(limit)
        return FallowError.exit_code
    voice.error(f"internal error: {type(error).__name__}: {error} (-v shows where)")
    return FallowError.exit_code


def _main(argv: list[str], voice: Stderr) -> int:
    before, verb, after, command = _split(argv)
    voice.as_json = "--log-format=json" in argv or ("--log-format", "json") in pairwise(argv)
    shared = common()
    if verb is None or not {"-h", "--help", "--version"}.isdisjoint(before):
        return _without_verb(before, shared)
    if verb == "help":
        if not after:
            return _without_verb(["--help"], shared)
        verb, after = after[0], ["--help"]
    if verb not in VERBS:
        there = did_you_mean(verb, VERBS) or f"; there are {', '.join(VERBS)}"
        raise WrongUsage(f"there is no verb {verb!r}{there} (see: fallow --help)")
    module = importlib.import_module(f"fallow.interfaces.cli.{verb}")
    parser = module.parser([shared])
    everywhere = Parser("fallow", "", "", [shared]).parse_args(before)
    try:
        args = parser.parse_args(after, everywhere)
    except SystemExit:  # the help was asked for, and has been printed
        return 0
    if command is not None and verb not in _TAKE_COMMAND:
        raise WrongUsage(f"fallow {verb} takes no command")
    args.command = command
    voice.verbose = getattr(args, "verbose", False)
    if streams.is_closed() and verb not in _WITHOUT_RESULT:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    world = World(given_environ(os.environ), simulate=getattr(args, "simulate", None))
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    code: int = module.run(args, world, voice)
    return code


def _split(argv: list[str]) -> tuple[list[str], str | None, list[str], list[str] | None]:
    """Options before the verb, the verb, its own words, and the command behind `--`."""
    command = None
    at = _next_word(argv, 0)
    if argv[at : at + 1] == ["compat"]:
        at = _next_word(argv, at + 1) + 1  # behind the tool's name all is the tool's
        argv, command = argv[:at], argv[at:]
    elif "--" in argv:
        at = argv.index("--")
        argv, command = argv[:at], argv[at + 1 :]
    words = _with_machine(argv)
    at = _next_word(words, 0)
    verb = words[at] if at < len(words) else None
    return words[:at], verb, words[at + 1 :], command


def _with_machine(words: list[str]) -> list[str]:
    """Each --simulate with its machine in one word: a bare one must not swallow the word behind it."""
    joined: list[str] = []
    at = 0
    while at < len(words):
        bare = words[at] == "--simulate"
        named = bare and _names_machine(words, at + 1)
        joined.append(f"--simulate={words[at + 1] if named else SIMULATE_DEFAULT}" if bare else words[at])
        at += 2 if named else 1
    return joined


def _names_machine(words: list[str], at: int) -> bool:
    """Whether the word can only be a machine, as 4xA100: no verb, GPU or subject looks like that."""
    return at < len(words) and re.fullmatch(_MACHINE, words[at], re.ASCII) is not None


def _next_word(words: list[str], at: int) -> int:
    """Where the options end that begin there."""
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        takes_next = words[at] == "--log-format" or (words[at] == "--simulate" and _names_machine(words, at + 1))
        at += 2 if takes_next else 1
    return at


def _without_verb(options: list[str], shared: argparse.ArgumentParser) -> int:
    verbs = "\n".join(f"  {name:<8} {what}" for name, what in VERBS.items())
    parser = Parser("fallow", f"One tool for idle GPUs.\n\nverbs:\n{verbs}", _EXAMPLES, [shared])
    parser.usage = "fallow VERB [OPTIONS]"
    parser.add_argument("--version", action="store_true", help="print the version")
    try:
        args = parser.parse_args(options)
    except SystemExit:  # as above
        return 0
    if getattr(args, "version", False):
        from fallow import __version__

        print(f"fallow {__version__}")
        return 0
    if options:
        raise WrongUsage(f"no verb given; there are {', '.join(VERBS)} (see: fallow --help)")
    parser.print_help()
    return 0
