"""Run the command of a rule before a job is asked to end: as the user of the job, for so long at most.

The kernel says whose job it is. Nothing runs as root unless the job is root's and the config allows it. What the
command prints is told to nobody: everybody reads the outcome.
"""

import os

from fallow.actuators.host.hooks import SystemHooks
from fallow.core.account import without_gpus
from fallow.core.errors import FallowError, NotPermitted
from fallow.core.findings import Outcome
from fallow.core.process import Process
from fallow.core.units import program_name
from fallow.engine.jobs.before_ask import Command
from fallow.engine.machine.world import World
from fallow.readers.accounts import run_as


def run_command(world: World, process: Process, command: Command, variables: dict[str, str]) -> Outcome:
    """Run the command as the user of this process; return its outcome, or why it was not run."""
    try:
        runs_as = run_as(_uid(world, process, command), without_gpus(world.environ))
    except FallowError as error:
        return Outcome(False, f"{program_name(command.line)!r} was not run: {error}")
    hooks = SystemHooks(without_gpus(world.environ), runs_as, command_limit_s=command.limit_s, tells_output=False)
    return hooks.run_command(command.line, variables)


def _uid(world: World, process: Process, command: Command) -> int:
    """Return the user of the process; raise NotPermitted if the command must not run as that one."""
    uid = world.proc.uid(process.pid)
    stat = world.proc.stat(process.pid)
    if uid is None or stat is None or stat.birth != process.birth:
        raise NotPermitted(f"whose process pid {process.pid} is cannot be told")
    if uid == 0 and not command.as_root:
        raise NotPermitted("the job is root's, and its rule does not say before_as_root = true")
    if os.geteuid() not in (0, uid):
        raise NotPermitted(f"only root can run it as user {uid}")
    return uid
