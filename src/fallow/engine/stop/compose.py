"""Put together what stops jobs by hand: the jobs, who acts on them, and what protects them."""

from functools import partial

from fallow.actuators.process.signals import demand_own_pids
from fallow.core.errors import NotPermitted
from fallow.engine.history.run import Run
from fallow.engine.idle_rules.actions import ActionsOnProcesses
from fallow.engine.idle_rules.gpu_jobs import JobFinder
from fallow.engine.owners.known import KnownOwners
from fallow.engine.owners.opt_outs import OptOuts
from fallow.engine.stop.find import JobsByHand
from fallow.engine.stop.protected import protected_for_good
from fallow.engine.stop.stop import StopByHand
from fallow.policies.arbiter import ProtectRules
from fallow.readers.accounts import groups_of


def stop_by_hand(run: Run, grace_s: float = 10.0) -> tuple[JobsByHand, StopByHand]:
    """Return what finds jobs by what a person calls them, and what stops them."""
    world = run.world
    demand_own_pids(world.proc)
    if world.simulated is None and world.proc.in_pid_namespace_of_its_own():
        raise NotPermitted("inside a container the driver's pids are not those seen here, so nothing can be stopped")
    kept = protected_for_good(run)
    groups = partial(groups_of, among=kept.groups)
    protect_rules = ProtectRules(frozenset(kept.users), kept.commands, kept.groups, groups)
    owners = KnownOwners(world, run.say)
    finder = JobFinder(world, owners, OptOuts(kept.units, kept.notebooks), watched_too=True)
    jobs = JobsByHand(world, owners, finder)
    return jobs, StopByHand(
        run, jobs, ActionsOnProcesses(run, finder, owners, world.terminals()), protect_rules, grace_s
    )
