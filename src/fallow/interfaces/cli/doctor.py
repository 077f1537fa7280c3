"""`fallow doctor`: check the installation, and say what each missing part means."""

import argparse
import os
import sys
from shlex import quote

from fallow.actuators.process import spawn
from fallow.core.api import VERSION
from fallow.core.errors import WrongUsage
from fallow.engine.doctor.finding import CheckFinding, Health, ok
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser, add_json
from fallow.interfaces.render.as_json import as_text
from fallow.interfaces.stderr import Stderr
from fallow.readers.file_trust import doubt

_FOR_ROOT = "let root install one for it first, as in /opt/fallow"
ABOUT = """\
Check the installation: driver, GPUs, folders, daemon, and each permission that
fallow can use. Each part is ok, lacking (something does not work here, the rest
does) or broken, and what to do is printed. The exit code is 1 if anything is
broken. Nothing is changed."""
EXAMPLES = """\
  fallow doctor
  sudo fallow doctor              what the daemon of root would find
  fallow doctor --json | jq '.checks[] | select(.state != "ok")'
  fallow doctor --unit | sudo tee /etc/systemd/system/fallow.service"""

_UNHEALTHY = 1


def add_options(made: Parser) -> None:
    """Add the options of `fallow doctor`."""
    add_json(made)
    made.add_argument("--unit", action="store_true", help="print a systemd unit, and check nothing")


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Run the checks, and print the findings."""
    if args.json and args.unit:
        raise WrongUsage("--json is only for the checks", "leave it out")
    if args.unit:
        program = _own_words()
        print(_unit(program), end="")
        why = doubt(program[0]) or doubt(__file__)
        if why is not None:
            voice.note(f"who can change this fallow becomes root by that unit; {_FOR_ROOT}: {why.sentence}")
        return 0
    from fallow.engine.doctor import examine

    voice.detail("checking; this takes a few seconds")
    found = [_program(), *examine(world)]
    if args.json:
        print(as_text(_as_json(found, world)))
    else:
        _show(found)
    return _UNHEALTHY if any(each.health is Health.BROKEN for each in found) else 0


def _shipped(name: str) -> str:
    from importlib.resources import files

    return (files("fallow") / "examples" / name).read_text("utf-8")


def _program() -> CheckFinding:
    from fallow.core.version import __version__

    python = ".".join(map(str, sys.version_info[:3]))
    return ok("fallow", f"{__version__} with Python {python}, in {quote(os.path.dirname(sys.executable))}")


def _show(found: list[CheckFinding]) -> None:
    from fallow.interfaces.render.table import coloured, show_rows, verdict

    rows = [(each.part, verdict(each.health.value), _sentence(each)) for each in found]
    show_rows(None, ("part", "state", "what that means"), rows)
    counts = [(sum(each.health is health for each in found), health.value) for health in Health]
    print(", ".join(f"{count} {coloured(verdict(word)) if count else word}" for count, word in counts))


def _sentence(each: CheckFinding) -> str:
    return f"{each.means}. What to do: {each.remedy}" if each.remedy else each.means


def _as_json(found: list[CheckFinding], world: World) -> dict[str, object]:
    return {
        "version": VERSION,
        "host": os.uname().nodename,
        "simulated": world.simulated is not None,
        "user": world.user,
        "checks": [
            {"part": each.part, "state": each.health.value, "means": each.means, "remedy": each.remedy or None}
            for each in found
        ],
    }


def _own_words() -> tuple[str, ...]:
    """Return the words that start this fallow."""
    called = os.path.abspath(sys.argv[0])
    return (called,) if os.path.basename(called) == "fallow" else spawn.OURSELVES


def _unit(program: tuple[str, ...]) -> str:
    """Return the shipped systemd unit, with the path of this fallow in it."""
    from fallow.engine.doctor.service import in_unit

    return _shipped("fallow.service").replace("/usr/local/bin/fallow", " ".join(map(in_unit, program)))
