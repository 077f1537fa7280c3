"""Put together what stops jobs by hand: the jobs, who acts on them, and what protects them."""

from functools import partial

from fallow.actuators.process.signals import demand_own_pids
from fallow.core.errors import NotPermitted
from fallow.core.value import replace
from fallow.engine.history.run import Run
from fallow.engine.idle_rules.actions import ActionsOnProcesses
from fallow.engine.idle_rules.gpu_jobs import JobFinder
from fallow.engine.machine.world import World
from fallow.engine.owners.known import KnownOwners
from fallow.engine.owners.opt_outs import NONE, OptOuts
from fallow.engine.stop.find import JobsByHand
from fallow.engine.stop.stop import HowToStop, StopByHand
from fallow.policies.arbiter import ProtectRules
from fallow.readers.accounts import groups_of


def stop_by_hand(run: Run, how: HowToStop) -> tuple[JobsByHand, StopByHand]:
    """Return what finds jobs by what a person calls them, and what stops them."""
    world = run.world
    demand_own_pids(world.proc)
    if world.simulated is None and world.proc.in_pid_namespace_of_its_own():
        raise NotPermitted("inside a container the driver's pids are not those seen here, so nothing can be stopped")
    protect_rules, opt_outs = _protected_for_good(world)
    owners = KnownOwners(world, run.say)
    finder = JobFinder(world, owners, opt_outs, watched_too=True)
    jobs = JobsByHand(world, owners, finder)
    return jobs, StopByHand(run, jobs, ActionsOnProcesses(run, finder, owners, world.terminals()), protect_rules, how)


def _protected_for_good(world: World) -> tuple[ProtectRules, OptOuts]:
    """Return what `[protect]` of the config names that `fallow up` of this user would use, if there is one."""
    from fallow.engine.config.location import find

    file = find(world.environ)
    if file is None:
        return ProtectRules(), NONE
    from fallow.engine.config.load import load

    protect = load(file).protect
    groups = partial(groups_of, among=protect.groups)
    return replace(protect.protect_rules, groups_of=groups), protect.opt_outs
