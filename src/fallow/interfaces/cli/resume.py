"""`fallow resume`: let what fallow stopped in a Kubernetes cluster run again."""

import argparse

from fallow.core.api import VERSION
from fallow.core.cluster import Engine
from fallow.core.errors import FallowError, NothingFound, WrongUsage
from fallow.core.findings import Outcome
from fallow.core.units import printable
from fallow.core.unknown import Unknown
from fallow.engine.cluster.kube_connection import connection
from fallow.engine.cluster.resume import Named, Stopped, all_stopped, parse_named, resumed
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser, add_json, takes
from fallow.interfaces.render.as_json import as_text
from fallow.interfaces.stderr import Stderr

ABOUT = """\
Let Deployments, StatefulSets, Jobs, notebooks and so on run again that fallow
stopped in a Kubernetes cluster: they get back the number of replicas that they
had. fallow wrote that into their annotations. It is done with your own rights:
with --kubeconfig, KUBECONFIG or ~/.kube/config, or those of the pod you are in.

exit codes: 0 all run again; 1 one does not, and the message says why; 125 the
cluster does not answer"""
EXAMPLES = """\
  fallow resume --list                          what fallow has stopped
  fallow resume deployment:ml/llama             one of these
  fallow resume statefulset:ml/db notebook:team/anna
  fallow resume --dry-run deployment:ml/llama   only say what would be done"""


def add_options(made: Parser) -> None:
    """Add the options of `fallow resume`."""
    made.usage = "fallow resume [OPTIONS] SUBJECT…"
    made.add_argument(
        "subjects",
        nargs="*",
        metavar="SUBJECT",
        help="deployment:NAMESPACE/NAME, or statefulset:NAMESPACE/NAME, replicaset:…, job:…, raycluster:…, rayjob:…,"
        " notebook:…, inferenceservice:…",
    )
    made.add_argument("--list", action="store_true", help="print what fallow has stopped, and change nothing")
    made.add_argument("--dry-run", action="store_true", help="print what would be done, and change nothing")
    takes(made, "--kubeconfig FILE", str, "the cluster and your rights there (default: as kubectl finds them)", "")
    add_json(made)


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """List what was stopped, or let it run again."""
    if args.list == bool(args.subjects):
        raise WrongUsage(
            "--list takes no SUBJECT" if args.list else "it is not said what to resume",
            "write it as: fallow resume deployment:NAMESPACE/NAME (fallow resume --list shows what there is)",
        )
    remedy = _remedy(args.kubeconfig or world.environ.get("KUBECONFIG", ""))
    named = [parse_named(text) for text in dict.fromkeys(args.subjects)]
    api = connection(world.clock, args.kubeconfig)
    try:
        if args.list:
            found, troubles = all_stopped(api)
            return _show(found, troubles, voice, remedy, as_json=args.json)
        done = [(each, resumed(api, each, dry_run=args.dry_run)) for each in named]
    finally:
        api.close()
    return _say(done, remedy, as_json=args.json, dry_run=args.dry_run)


def _remedy(kubeconfig: str) -> str:
    """Return what to do where the cluster does not answer; one that is named already need not be named again."""
    way = Engine.KUBERNETES.remedy({"KUBECONFIG": kubeconfig})
    return way if kubeconfig else f"{way}, or name it with --kubeconfig"


def _show(found: list[Stopped], troubles: list[str], voice: Stderr, remedy: str, *, as_json: bool) -> int:
    if troubles and not found:
        raise FallowError(printable("; ".join(troubles)), remedy)
    for trouble in troubles:
        voice.note(printable(trouble))
    if as_json:
        rows = [
            {
                "subject": each.subject,
                "kind": each.kind,
                "namespace": each.namespace,
                "name": each.name,
                "stopped_at": each.at,
                "because": each.because,
                "would": each.does,
            }
            for each in found
        ]
        print(as_text({"version": VERSION, "stopped": rows}))
        return 0
    for each in found:
        would = f"resume would {each.does}" if each.does else "what it was before cannot be read"
        print(f"{each.subject}  stopped at {each.at}: {each.because}; {would}")
    if not found:
        print("fallow has stopped nothing here")
    return 0


def _say(done: list[tuple[Named, Outcome | Unknown]], remedy: str, *, as_json: bool, dry_run: bool) -> int:
    if as_json:
        rows = [
            {"subject": str(each), "resumed": None, "because": outcome.why}
            if isinstance(outcome, Unknown)
            else {"subject": str(each), "resumed": outcome.ok and not dry_run, "because": outcome.words}
            for each, outcome in done
        ]
        print(as_text({"version": VERSION, "resumed": rows}))
    else:
        for each, outcome in done:
            if isinstance(outcome, Outcome) and outcome.ok:
                print(printable(f"{each}: {outcome.words}"))
    failed: list[str] = []
    silent = False
    for each, outcome in done:
        if isinstance(outcome, Unknown):
            silent = True
            failed.append(f"whether {each} was resumed is not known: {outcome.why}")
        elif not outcome.ok:
            failed.append(f"{each} was not resumed: {outcome.words}")
    if silent:
        raise FallowError(printable("; ".join(failed)), remedy)
    if failed:
        raise NothingFound(printable("; ".join(failed)))
    return 0
