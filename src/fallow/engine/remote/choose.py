"""Ask hosts which GPUs they would give, and put those that could into an order: the most suitable first.

A host judges its own GPUs, by a dry run of `fallow pick` there, so that one rule decides on every host. The answer
is a hint: the claim is made by the launch itself, on the host that runs it.
"""

from collections.abc import Callable, Sequence

from fallow.core.value import value
from fallow.engine.machine.world import World
from fallow.engine.remote.ask import Facts, Refused, ask_all
from fallow.engine.remote.ssh import Ssh

_GIB = 2**30
_SAME_C = 5
_MOST_GPUS = 1024


@value
class Offered:
    """GPUs that a host gives, or would give."""

    indices: tuple[str, ...]
    """As people write them; a MIG instance by its UUID."""
    held: int
    """How many processes are on them: fillers, which would leave."""
    free_gib: int
    """The free memory of the fullest one."""
    warmth: int
    """The temperature of the warmest, in steps of 5 °C; above all others if it is not known."""


Answers = Sequence[tuple[str, Offered | Refused]]


def offers(world: World, ssh: Ssh, hosts: Sequence[str], words: Sequence[str]) -> list[tuple[str, Offered | Refused]]:
    """Return which GPUs each host would give now, or why none. `words`: the options of `fallow pick`."""
    return ask_all(world, ssh, hosts, ["pick", "--dry-run", "--format", "json", *words], offered)


def by_suitability(answers: Answers, chance: Callable[[], int]) -> list[tuple[str, Offered]]:
    """Return the hosts that could, the most suitable first: nobody there, most free memory, coolest, at random."""
    could = [(host, answer) for host, answer in answers if isinstance(answer, Offered)]
    return sorted(could, key=lambda each: (each[1].held, -each[1].free_gib, each[1].warmth, chance()))


def offered(facts: Facts) -> Offered:
    """Return the GPUs in an answer of `fallow pick --format json`; raise TypeError, KeyError or ValueError."""
    gpus = facts["gpus"]
    if not isinstance(gpus, list) or not 0 < len(gpus) <= _MOST_GPUS:
        raise ValueError("it names no GPUs")
    free = [gpu["memory_total_bytes"] - gpu["memory_used_bytes"] for gpu in gpus if _knows_memory(gpu)]
    warmest = [gpu["temperature_c"] for gpu in gpus if isinstance(gpu["temperature_c"], (int, float))]
    return Offered(
        tuple(_index(gpu) for gpu in gpus),
        sum(len(gpu["holders"] or ()) for gpu in gpus),
        int(min(free) // _GIB) if len(free) == len(gpus) else 0,
        int(max(warmest) // _SAME_C) if len(warmest) == len(gpus) else 1000,
    )


def _knows_memory(gpu: Facts) -> bool:
    return all(isinstance(gpu[name], (int, float)) for name in ("memory_total_bytes", "memory_used_bytes"))


def _index(gpu: Facts) -> str:
    if gpu["mig_slot"] is not None:
        return _word(gpu["uuid"])
    if not isinstance(gpu["index"], int):
        raise TypeError("an index is no number")
    return str(gpu["index"])


def _word(uuid: object) -> str:
    """Return a UUID, which shells read: letters, digits and dashes only."""
    if not isinstance(uuid, str) or not uuid.isascii() or not uuid.replace("-", "").isalnum():
        raise ValueError("a UUID is none")
    return uuid
