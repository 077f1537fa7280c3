"""`fallow why`: the evidence for the last verdict on a GPU or a process."""

import argparse
import json
from collections.abc import Sequence

from fallow.core.activity import judge
from fallow.core.errors import WrongUsage
from fallow.core.gpu import Gpu
from fallow.core.holds import OneGpu, OneProcess
from fallow.core.job import stretch_load
from fallow.core.ports import Depth
from fallow.core.unknown import Unknown
from fallow.core.verdicts import Event
from fallow.engine.journal import open_journal
from fallow.engine.subjects import target_of
from fallow.engine.world import World
from fallow.faces.as_json import iso_time
from fallow.faces.cli.options import Parser, add_alone
from fallow.faces.voice import Voice

_MOST_EVENTS = 30
_UNWATCHED = "nobody has watched this GPU; one look says:"
EXAMPLES = """\
  fallow why            the last verdict, and what was done
  fallow why 3          on GPU 3
  fallow why 12345      on a process
  fallow why --json"""


def parser(parents: list[argparse.ArgumentParser]) -> Parser:
    """The options of why."""
    made = Parser(
        "fallow why",
        "Explain the last verdict on a GPU or a process: what was found, by which readings, and what was done.",
        EXAMPLES,
        parents,
    )
    made.add_argument("subject", nargs="?", metavar="GPU|PID", help="a GPU or a process (default: whatever was last)")
    made.add_argument("--json", action="store_true", help="print JSON")
    add_alone(made)
    return made


def run(args: argparse.Namespace, world: World, voice: Voice) -> int:
    """Tell what our journal and the daemon's have; of a GPU that nobody watched, what one look says."""
    daemon = None if args.alone else world.daemon(voice.detail)
    sight = None if daemon is None else daemon.sight()
    seen = None if sight is None else sight.gpus
    target = None if args.subject is None else target_of(args.subject, world, gone_is_fine=True, among=seen)
    match target:
        case OneGpu(uuid=uuid):
            key: str | None = f"gpu:{uuid}"
        case OneProcess(pid=pid):
            key = f"pid:{pid}"
        case None:
            key = None
        case _:
            raise WrongUsage(f"{args.subject!r} is neither a GPU nor a process; write: fallow why [GPU|PID]")
    journal = open_journal(world, voice.note)
    told = None if daemon is None or sight is None else daemon.events(key, _MOST_EVENTS)
    events = _together(journal.last(key, _MOST_EVENTS), told or [])
    journal.close()
    if args.json:
        print(json.dumps([_as_json(event) for event in events], indent=2))
        return 0
    for line in _story(events, world.clock.wall_s()):
        print(line)
    if not events and isinstance(target, OneGpu):
        print("nobody has found anything on this GPU; one look says:" if seen else _UNWATCHED)
        print(_one_look(seen or world.eyes.look(Depth.LOOK).gpus, target.uuid))
    elif not events:
        print("the journal has nothing on that")
    return 0


def _together(ours: list[Event], theirs: list[Event]) -> list[Event]:
    """Newest first. Where both journals are the same one, each event is told once."""
    events = {(event.wall_s, event.kind, event.subject, event.finding): event for event in (*theirs, *ours)}
    return sorted(events.values(), key=lambda event: (event.wall_s, event.id), reverse=True)[:_MOST_EVENTS]


def _story(events: list[Event], now_wall_s: float) -> list[str]:
    """The last verdict with its readings, then what was done since."""
    lines: list[str] = []
    later: list[Event] = []
    for event in events:
        if event.kind == "verdict":
            lines.append(event.in_words(now_wall_s))
            lines.extend(f"  {name}: {text}" for name, text in event.evidence)
            break
        later.append(event)
    lines.extend(event.in_words(now_wall_s) for event in reversed(later))
    return lines


def _one_look(gpus: Sequence[Gpu], uuid: str) -> str:
    for gpu in gpus:
        if gpu.uuid == uuid:
            finding = judge(gpu)
            load = stretch_load(gpu)
            ran = str(load) if isinstance(load, Unknown) else f"{load:.1%}"
            return f"GPU {gpu.label} is {finding.activity}: {finding.because} (load: {ran})"
    return "it is not to be seen"


def _as_json(event: Event) -> dict[str, object]:
    return {
        "at": iso_time(event.wall_s),
        "kind": event.kind,
        "subject": event.subject,
        "finding": event.finding,
        "because": event.because,
        "evidence": dict(event.evidence),
    }
