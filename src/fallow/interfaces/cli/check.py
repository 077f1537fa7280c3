"""`fallow check`: report every mistake in a config, each with its line."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fallow.core.api import VERSION
from fallow.core.errors import ConfigWrong, WrongUsage
from fallow.core.mistake import Mistake
from fallow.core.units import duration_for_people, printable
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser, add_json
from fallow.interfaces.render.as_json import as_text
from fallow.interfaces.stderr import Stderr

if TYPE_CHECKING:
    from fallow.engine.config.model import Config

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
    """Print the mistakes, or a summary of the config."""
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

        found = load(file, Feasible(world, voice.detail), remark=remarks.append)
    except ConfigWrong as error:
        _print_mistakes(error, remarks, as_json=args.json)
        return error.exit_code
    finally:
        for remark in remarks:
            voice.note(remark.in_file(printable(file)))
    if args.json:
        _print_json(file, (), remarks, _counts(found))
    else:
        print(f"{printable(file)}: {_verdict('no mistakes')}; {_summary(found)}")
    return 0


def _print_example() -> int:
    from importlib.resources import files

    print((files("fallow") / "examples" / "fallow.toml").read_text("utf-8"), end="")
    return 0


def _print_mistakes(error: ConfigWrong, remarks: list[Mistake], *, as_json: bool) -> None:
    if as_json:
        _print_json(error.file, error.mistakes, remarks, None)
        return
    for mistake in error.mistakes:
        print(mistake.in_file(error.file))
    print(f"{len(error.mistakes)} {_verdict('mistake' if len(error.mistakes) == 1 else 'mistakes')}")


def _verdict(word: str) -> str:
    from fallow.interfaces.render.table import coloured, verdict

    return coloured(verdict(word))


def _print_json(
    file: str, mistakes: Sequence[Mistake], remarks: Sequence[Mistake], found: dict[str, object] | None
) -> None:
    rows, others = ([_row(each) for each in some] for some in (mistakes, remarks))
    print(as_text({"version": VERSION, "file": file, "mistakes": rows, "remarks": others, "found": found}))


def _row(mistake: Mistake) -> dict[str, object]:
    return {
        "line": mistake.line,
        "path": mistake.where,
        "sentence": mistake.sentence,
        "suggestion": mistake.suggestion,
    }


def _counts(found: "Config") -> dict[str, object]:
    cluster = found.cluster if found.cluster.is_watched else None
    rules = () if cluster is None else cluster.idle
    return {
        "fillers": len(found.fillers),
        "idle_rules": len(found.idle),
        "idle_rules_that_act": sum(rule.act for rule in found.idle),
        "guards": len(found.guards),
        "cluster": None if cluster is None else cluster.engine,
        "cluster_rules": len(rules),
        "cluster_rules_that_act": sum(rule.act for rule in rules),
        "notice_urls": len(found.notices.urls),
        "notices_to_people": found.notices.people.template is not None,
        "page": str(found.page.listen) if found.page.enabled else None,
        "history_s": found.history.keep_for,
    }


def _summary(found: "Config") -> str:
    """Return a summary such as `2 fillers (1 not enabled), 1 idle rule (only reports), page on 127.0.0.1:8990, …`."""
    parts = [
        _some(len(found.filler), "filler") + _off(len(found.filler) - len(found.fillers)),
        _rules([rule.act for rule in found.idle]),
        _some(len(found.guard), "guard") + _off(len(found.guard) - len(found.guards)),
        f"page on {_where(found)}{_persons(found)}" if found.page.enabled else "no page",
        f"notices to {_some(len(found.notices.urls), 'address', 'addresses')}"
        + " and to the users of jobs" * (found.notices.people.template is not None),
        f"history kept for {duration_for_people(found.history.keep_for)}",
    ]
    cluster = found.cluster
    if cluster.engine is not None:
        rules = f" with {_rules([rule.act for rule in cluster.idle])}" if cluster.enabled else " (not enabled)"
        parts.append(f"{cluster.engine} cluster{rules}")
    return ", ".join(parts)


def _where(found: "Config") -> str:
    """Return the address of the page; with port 0 the daemon takes a free one, and names it."""
    listen = found.page.listen
    return str(listen) if listen.port else f"a free port of {listen.host} (port 0), which `fallow up` names"


def _persons(found: "Config") -> str:
    """Return who acts on the page, such as ` with 2 persons who act (one as root)`."""
    users = [person.user for person in found.page.person]
    acting = f" with {_some(len(users), 'person')} who act{'s' if len(users) == 1 else ''}" if users else ""
    return acting + " (one as root)" * ("root" in users)


def _rules(acting: list[bool]) -> str:
    if not any(acting):
        does = "only reports" if len(acting) == 1 else "only report"
    else:
        does = f"{sum(acting)} of them may act" if len(acting) > 1 else "it may act"
    return _some(len(acting), "idle rule") + f" ({does})" * bool(acting)


def _some(count: int, one: str, many: str = "") -> str:
    return f"no {one}" if count == 0 else f"1 {one}" if count == 1 else f"{count} {many or f'{one}s'}"


def _off(count: int) -> str:
    return f" ({count} not enabled)" if count else ""
