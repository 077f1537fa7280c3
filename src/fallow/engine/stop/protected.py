"""Gather what must be left alone for good: `[protect]` of this user's config, and of each daemon that runs."""

from fallow.core.protections import ProtectedForGood
from fallow.core.value import fields
from fallow.engine.client.daemon_client import DaemonClient
from fallow.engine.client.socket_path import sockets_to_ask
from fallow.engine.history.run import Run
from fallow.engine.machine.world import World


def protected_for_good(run: Run) -> ProtectedForGood:
    """Return all that a config protects; a daemon that cannot be asked is reported, and what is known binds."""
    told = [_by_the_config(run.world)]
    for place in sockets_to_ask(run.world.environ):
        daemon = DaemonClient(run.world.environ, run.world.clock, run.world.simulated, lambda _: None, [place])
        found = daemon.protected_for_good()
        if found is not None:
            told.append(found)
        elif daemon.trouble is not None:
            run.say(f"what the daemon at {place} protects by its config is not known: {daemon.trouble}")
    together = {name: tuple(x for each in told for x in getattr(each, name)) for name in fields(ProtectedForGood)}
    return ProtectedForGood(**together)


def _by_the_config(world: World) -> ProtectedForGood:
    """Return what the config names that `fallow up` of this user would use, if there is one."""
    from fallow.engine.config.location import find

    file = find(world.environ)
    if file is None:
        return ProtectedForGood()
    from fallow.engine.config.load import load

    return load(file).protect.for_good
