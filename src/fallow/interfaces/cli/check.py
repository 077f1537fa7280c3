"""`fallow check`: report every mistake in a config, each with its line."""

import argparse
from collections.abc import Sequence

from fallow.core.api import VERSION
from fallow.core.errors import ConfigWrong, WrongUsage
from fallow.core.mistake import Mistake
from fallow.core.units import printable
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser, add_json
from fallow.interfaces.render.as_json import as_text
from fallow.interfaces.stderr import Stderr

ABOUT = """\
Check a config file. Every mistake is printed at once, with its line and with
what was probably meant: all that `fallow up` would refuse here, and GPUs that
are missing now. For the daemon of root, run it as root."""
EXAMPLES = """\
  fallow check
  fallow check fallow.toml && systemctl reload fallow
  fallow check --example > fallow.toml"""


def add_options(made: Parser) -> None:
    """Add the options of `fallow check`."""
    made.usage = "fallow check [OPTIONS] [FILE]"
    made.add_argument(
        "file", nargs="?", metavar="FILE", help="the config to check (default: the one that `fallow up` would read)"
    )
    add_json(made)
    made.add_argument("--example", action="store_true", help="print an example with comments, and check nothing")


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Print the mistakes, or that there are none."""
    if args.example and args.file is not None:
        raise WrongUsage("--example takes no file")
    if args.example:
        return _print_example()
    from fallow.engine.config.location import MACHINE, find, may_be_there, searched

    file = find(world.environ, args.file)
    if file is None:
        searched_in = searched(world.environ)
        places = (
            f"neither {' nor '.join(searched_in)}" if len(searched_in) > 1 else f"not {(*searched_in, 'at home')[0]}"
        )
        machine = f"; the machine's is root's: fallow check {MACHINE}" * may_be_there(MACHINE)
        raise WrongUsage(f"there is no config to check, {places}{machine}; to begin one: fallow check --example")
    voice.detail(f"checking {printable(file)}")
    remarks: list[Mistake] = []
    try:
        from fallow.engine.config.feasible import Feasible
        from fallow.engine.config.load import load

        load(file, Feasible(world, voice.detail), remark=remarks.append)
    except ConfigWrong as error:
        _print_mistakes(error, remarks, as_json=args.json)
        return error.exit_code
    finally:
        for remark in remarks:
            voice.note(remark.in_file(printable(file)))
    if args.json:
        _print_json(file, (), remarks)
    else:
        print(f"{printable(file)}: {_verdict('no mistakes')}")
    return 0


def _print_example() -> int:
    from importlib.resources import files

    print((files("fallow") / "examples" / "fallow.toml").read_text("utf-8"), end="")
    return 0


def _print_mistakes(error: ConfigWrong, remarks: list[Mistake], *, as_json: bool) -> None:
    if as_json:
        _print_json(error.file, error.mistakes, remarks)
        return
    for mistake in error.mistakes:
        print(mistake.in_file(error.file))
    print(f"{len(error.mistakes)} {_verdict('mistake' if len(error.mistakes) == 1 else 'mistakes')}")


def _verdict(word: str) -> str:
    from fallow.interfaces.render.table import coloured, verdict

    return coloured(verdict(word))


def _print_json(file: str, mistakes: Sequence[Mistake], remarks: Sequence[Mistake]) -> None:
    rows, others = ([_row(each) for each in some] for some in (mistakes, remarks))
    print(as_text({"version": VERSION, "file": file, "mistakes": rows, "remarks": others}))


def _row(mistake: Mistake) -> dict[str, object]:
    return {
        "line": mistake.line,
        "path": mistake.where,
        "sentence": mistake.sentence,
        "suggestion": mistake.suggestion,
    }
