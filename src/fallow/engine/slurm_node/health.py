"""`fallow slurm health`: whether all GPUs of the node answer; it is drained only if that was asked for."""

from fallow.actuators.host.drain_node import DrainsNode
from fallow.core.errors import NoDriver
from fallow.core.findings import Outcome
from fallow.core.ports import Depth
from fallow.core.reasons import Reason
from fallow.core.value import value
from fallow.engine.history.run import Run
from fallow.engine.machine.world import World

_DRAIN = "drain the node"


@value
class Health:
    """What was found, and what came of draining the node."""

    troubles: tuple[str, ...] = ()
    drained: Outcome | None = None
    """None if the node was not to be drained."""


def check_health(world: World, count: int | None) -> tuple[str, ...]:
    """Return what is wrong with the GPUs of the node, a sentence each; `count` is how many it must have."""
    try:
        gpus = world.gpu_reader.look(Depth.HOLDERS).gpus
    except NoDriver as error:
        return (error.sentence,)
    troubles = [f"GPU {gpu.label}: {gpu.trouble}" for gpu in gpus if gpu.trouble is not None]
    cards = {gpu.index for gpu in gpus}
    if count is not None and len(cards) < count:
        troubles.append(f"the driver lists {len(cards)} of {count} GPUs")
    return tuple(troubles)


def run_health(run: Run, node: str, count: int | None, *, drain: bool) -> Health:
    """Check the GPUs, and drain the node if something is wrong and that was asked for."""
    troubles = check_health(run.world, count)
    if not troubles or not drain:
        return Health(troubles)
    why = "; ".join(troubles)
    if run.dry_run:
        return Health(troubles, Outcome(True, f"would be drained: {why}"))
    subject, key = f"node {node}", f"node:{node}"
    run.journal.action(subject, _DRAIN, Reason("unhealthy", trouble=why), (key,))
    outcome = DrainsNode(run.world.environ, run.world.clock.monotonic_s)(node, why)
    run.journal.outcome(subject, _DRAIN, outcome.words, (key,))
    return Health(troubles, outcome)
