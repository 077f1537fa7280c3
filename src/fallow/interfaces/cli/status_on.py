"""`fallow status --on`: show the GPUs of several hosts; one that does not answer is a row that says so."""

import argparse
import json
from collections.abc import Iterator, Sequence

from fallow.core.api import VERSION
from fallow.core.errors import NoDaemon, WrongUsage
from fallow.core.gpu_status import Shown
from fallow.core.units import printable
from fallow.core.value import replace
from fallow.engine.machine.world import World
from fallow.engine.remote.ask import Refused
from fallow.engine.remote.status import HostStatus, status_of_all
from fallow.interfaces.cli.on import reached, told_of
from fallow.interfaces.cli.status import chosen_lines, view_of
from fallow.interfaces.render import as_json
from fallow.interfaces.signals import interruptible

_EVERY_S = 10.0

Answers = Sequence[tuple[str, HostStatus | Refused]]


def run_on(args: argparse.Namespace, world: World) -> int:
    """Ask all hosts, print what each answered, and return 0 if one of them did; with --watch again until Ctrl-C."""
    if args.cluster:
        raise WrongUsage("--cluster does not go with --on", "leave one of them out")
    looks = _looks(args, world)
    if args.watch is None:
        answers = next(looks)
        if args.json:
            print(as_json.as_text(_facts(args, answers, world)))
        else:
            view_of(args).show(_parts(args, answers, world))
        return NoDaemon.exit_code if all(isinstance(answer, Refused) for _, answer in answers) else 0
    with interruptible():
        if args.json:
            for answers in looks:
                print(json.dumps(_facts(args, answers, world)), flush=True)
        else:
            view_of(args).show_live(_parts(args, answers, world) for answers in looks)
    return 0


def _looks(args: argparse.Namespace, world: World) -> Iterator[Answers]:
    hosts, ssh = reached(args, world)
    words = [] if args.gpus is None else [args.gpus]
    while True:
        yield status_of_all(world, ssh, hosts, words)
        world.clock.sleep(args.watch or _EVERY_S)


def _facts(args: argparse.Namespace, answers: Answers, world: World) -> dict[str, object]:
    return {"version": VERSION, "hosts": [_host(args, host, answer, world) for host, answer in answers]}


def _host(args: argparse.Namespace, host: str, answer: HostStatus | Refused, world: World) -> dict[str, object]:
    status = None
    if isinstance(answer, HostStatus):
        lines, _ = chosen_lines(args, answer.status, world.user)
        status = as_json.only(answer.facts, answer.status, lines)
    return told_of(host, answer) | {"status": status}


def _parts(args: argparse.Namespace, answers: Answers, world: World) -> list[Shown | str]:
    found: list[Shown | str] = []
    for host, answer in answers:
        if isinstance(answer, Refused):
            found.append(f"{host}: {printable(str(answer.reason))}")
            continue
        status = answer.status
        name = host if status.host == host else f"{host} ({status.host})"
        lines, remark = chosen_lines(args, status, world.user)
        named = replace(status, host=name)
        found.append(Shown(named, None, status.available, lines, answer.outlooks, remark))
    return found
