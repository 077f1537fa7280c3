"""`fallow wake deployment:ml/llama`: let what fallow stopped in a Kubernetes cluster run again."""

from collections.abc import Sequence

from fallow.core.api import VERSION
from fallow.core.cluster import Engine
from fallow.core.errors import FallowError, NothingFound
from fallow.core.units import printable
from fallow.core.unknown import Unknown
from fallow.engine.cluster.kube_connection import connection
from fallow.engine.cluster.wake import all_stopped, parse_named, woken
from fallow.engine.machine.world import World
from fallow.interfaces.render.as_json import as_text
from fallow.interfaces.stderr import Stderr


def show_stopped(world: World, voice: Stderr, *, as_json: bool) -> int:
    """Print what fallow has stopped in the cluster."""
    api = connection(world.clock, "")
    try:
        found, troubles = all_stopped(api)
    finally:
        api.close()
    if troubles and not found:
        raise FallowError(printable("; ".join(troubles)), Engine.KUBERNETES.remedy(world.environ))
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
        would = f"wake would {each.does}" if each.does else "what it was before cannot be read"
        print(f"{each.subject}  stopped at {each.at}: {each.because}; {would}")
    if not found:
        print("fallow has stopped nothing here")
    return 0


def wake(texts: Sequence[str], world: World, *, as_json: bool) -> int:
    """Let what is named run again, with the rights that the person has in the cluster."""
    named = [parse_named(text) for text in texts]
    api = connection(world.clock, "")
    try:
        done = [(each, woken(api, each)) for each in named]
    finally:
        api.close()
    if as_json:
        rows = [
            {"subject": str(each), "woken": None, "because": outcome.why}
            if isinstance(outcome, Unknown)
            else {"subject": str(each), "woken": outcome.ok, "because": outcome.words}
            for each, outcome in done
        ]
        print(as_text({"version": VERSION, "jobs": rows}))
    failed: list[str] = []
    silent = False
    for each, outcome in done:
        if isinstance(outcome, Unknown):
            silent = True
            failed.append(f"whether {each} was woken is not known: {outcome.why}")
        elif not outcome.ok:
            failed.append(f"{each} was not woken: {outcome.words}")
        elif not as_json:
            print(printable(f"{each} was woken: {outcome.words}"))
    if silent:
        raise FallowError(printable("; ".join(failed)), Engine.KUBERNETES.remedy(world.environ))
    if failed:
        raise NothingFound(printable("; ".join(failed)))
    return 0
