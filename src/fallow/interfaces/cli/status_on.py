"""`fallow status --on`: show the GPUs of several hosts; one that does not answer is a row that says so."""

import argparse

from fallow.core.api import VERSION
from fallow.core.errors import NoDaemon, WrongUsage
from fallow.core.gpu_status import Shown
from fallow.core.units import printable
from fallow.core.value import replace
from fallow.engine.machine.world import World
from fallow.engine.remote.ask import Refused
from fallow.engine.remote.status import HostStatus, status_of_all
from fallow.interfaces.cli.on import reached
from fallow.interfaces.cli.status import chosen_lines, show_lines
from fallow.interfaces.render import as_json

NOBODY_ANSWERED = NoDaemon.exit_code


def run_on(args: argparse.Namespace, world: World) -> int:
    """Ask all hosts, print what each answered, and return 0 if one of them did."""
    if args.watch:
        raise WrongUsage("--watch does not go with --on", "repeat it with: watch -n 10 fallow status --on …")
    if args.cluster or args.fleet:
        raise WrongUsage("--cluster and --fleet do not go with --on", "leave one of them out")
    hosts, ssh, limit_s = reached(args, world)
    words = [*(["--alone"] if args.alone else []), *([] if args.gpus is None else [args.gpus])]
    answers = status_of_all(world, ssh, hosts, words, limit_s)
    if args.json:
        hosts_facts = [_facts(args, host, answer, world) for host, answer in answers]
        print(as_json.as_text({"version": VERSION, "hosts": hosts_facts}))
    else:
        _show(args, answers, world)
    return 0 if any(isinstance(answer, HostStatus) for _, answer in answers) else NOBODY_ANSWERED


def _facts(args: argparse.Namespace, host: str, answer: HostStatus | Refused, world: World) -> dict[str, object]:
    if isinstance(answer, HostStatus):
        lines, _ = chosen_lines(args, answer.status, world.user)
        facts = as_json.only(answer.facts, answer.status, lines)
        return {"name": host, "status": facts, "error": None, "reason": None, "facts": {}}
    why = answer.reason
    return {"name": host, "status": None, "error": str(why), "reason": why.kind, "facts": why.plain_facts}


def _show(args: argparse.Namespace, answers: list[tuple[str, HostStatus | Refused]], world: World) -> None:
    for host, answer in answers:
        if isinstance(answer, Refused):
            print(f"{host}: {printable(str(answer.reason))}", flush=True)
            continue
        status = answer.status
        name = host if status.host == host else f"{host} ({status.host})"
        lines, remark = chosen_lines(args, status, world.user)
        named = replace(status, host=name)
        show_lines(args, Shown(named, None, status.available, lines, answer.outlooks, remark))
