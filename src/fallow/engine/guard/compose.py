"""Put together the parts of a guard, for `fallow guard`, the daemon and the older tools alike."""

from collections.abc import Callable, Sequence

from fallow.engine.conditions.machine import parse_unless
from fallow.engine.guard.attached import Attached, DryRunAttached
from fallow.engine.guard.guard import GuardLoop
from fallow.engine.history.run import Run
from fallow.engine.jobs.executor import Executor, Inline
from fallow.engine.jobs.perform import HostActuators, host_actuators, nobody_to_signal, refuse, shortcomings
from fallow.policies.guard import GuardRules


def guard_loop(
    run: Run,
    rules: GuardRules,
    *,
    name: str = "guard",
    gpus: str | None = None,
    attach: int | None = None,
    unless: Sequence[str] = (),
    user: str | None = None,
    executor: Executor | None = None,
    host: Callable[..., HostActuators] = host_actuators,
    armed: bool = False,
    refuses: bool = True,
) -> GuardLoop:
    """Return a guard that is ready to run; raise FallowError if an action can never be done here.

    `attach`: the process that a signal goes to. `user`: whom commands run as. `armed`: act without waiting for work.
    `refuses` is false if the config was checked for impossible actions already.
    """
    signalled = DryRunAttached if run.dry_run else Attached
    attached = None if attach is None else signalled(run.world, attach)
    actuators = host(run.world, dry_run=run.dry_run, user=user)
    if refuses:
        signals = nobody_to_signal if attached is None else attached.shortcoming
        found = shortcomings(rules.actions, actuators, run.world.environ, signals)
        refuse(found, run.say, dry_run=run.dry_run)
    conditions = [parse_unless(text, run.world) for text in unless]
    return GuardLoop(
        run,
        rules,
        actuators,
        Inline() if executor is None else executor,
        name=name,
        gpus=gpus,
        attached=attached,
        conditions=conditions,
        armed=armed,
    )
