"""`gpu_sentinel`: wait for work, and act when it has ended. The command runs the loop of `fallow guard`."""

import argparse
import functools
import math
import os
from collections.abc import Callable, Sequence
from enum import Enum

from fallow.core.actions import EndGuard, HostAction, PowerOff, Reboot
from fallow.core.arguments import ArgumentParser
from fallow.core.job import stretch_load
from fallow.core.ports import Depth
from fallow.core.unknown import Unknown
from fallow.engine.guard.guard import GuardLoop
from fallow.engine.history.run import open_run
from fallow.engine.machine.world import World
from fallow.policies.guard import Across, GuardRules

_TICK_S = 1.0
_ACTIONS: dict[str, HostAction] = {"end_process": EndGuard(), "shutdown": PowerOff(), "reboot": Reboot()}


class SentinelState(Enum):
    """SAFE until there was enough work, then ARMED. The old tool's document calls the first IDLE."""

    SAFE = 0
    ARMED = 1
    IDLE = SAFE


class Sentinel:
    """Watches a stream of values: it arms after enough above a threshold, and acts once after enough below another.

    It counts ticks, whatever time passes between them. NaN is neither above nor below.
    """

    def __init__(
        self,
        arm_duration: int,
        arm_threshold: float,
        kill_duration: int,
        kill_threshold: float,
        kill_fn: Callable[[], object],
    ) -> None:
        self.arm_duration = arm_duration
        self.arm_threshold = arm_threshold
        self.kill_duration = kill_duration
        self.kill_threshold = kill_threshold
        self.kill_fn = kill_fn
        self.state = SentinelState.SAFE
        self._ticks = 0
        self._acted = False

    def tick(self, current_value: float) -> None:
        """Take the next value; call `kill_fn` when the values were low for long enough, once and never again."""
        armed = self.state is SentinelState.ARMED
        counts = current_value < self.kill_threshold if armed else current_value > self.arm_threshold
        self._ticks = self._ticks + 1 if counts else 0
        if not armed and self._ticks >= self.arm_duration:
            self.state, self._ticks = SentinelState.ARMED, 0
        elif armed and not self._acted and self._ticks >= max(1, self.kill_duration):
            self._acted = True
            self.kill_fn()


def get_gpu_usage(device_ids: Sequence[int] | None = None) -> float:
    """Return the mean usage of these GPUs, or of all, since the last call: 0..1, or NaN if one is unknown.

    GPUs that the machine does not have are left out.
    """
    gpus = _world(os.getpid()).gpu_reader.look(Depth.ALL).gpus
    loads = [stretch_load(gpu) for gpu in gpus if not device_ids or gpu.index in device_ids]
    known = [load for load in loads if not isinstance(load, Unknown)]
    return sum(known) / len(known) if known and len(known) == len(loads) else math.nan


@functools.cache
def _world(pid: int) -> World:  # noqa: ARG001  the reader's threads do not exist in a forked process
    """Return one World a process, so that usage is measured from call to call."""
    return World(os.environ)


def main(words: Sequence[str], world: World, tell: Callable[[str], None]) -> int:
    """Run the guard, which judges the mean and has no countdown, until it has acted."""
    args = _options(words)
    rules = GuardRules(
        actions=(_ACTIONS[args.kill_action],),
        arm_above=args.arm_threshold,
        arm_for_s=args.arm_duration,
        idle_below=args.kill_threshold,
        idle_for_s=args.kill_duration,
        across=Across.MEAN,
        countdown_s=0.0,
    )
    gpus = ",".join(map(str, args.gpu_devices or ())) or None
    with open_run(world, tell) as run:
        loop = GuardLoop(run, rules, gpus=gpus, armed=args.arm_duration <= 0)
        tell(
            f"{args.kill_action} once the mean usage of {'all GPUs' if gpus is None else f'GPU {gpus}'} was above "
            f"{args.arm_threshold:.0%} for {args.arm_duration} s and then below {args.kill_threshold:.0%} for "
            f"{args.kill_duration} s"
        )
        loop.run(_TICK_S)
    return 0


def _options(words: Sequence[str]) -> argparse.Namespace:
    what = "Wait for the GPUs to work, then for their work to end, then act at once."
    parser = ArgumentParser.of_older_tool("gpu_sentinel", what)
    add = parser.add_argument
    add("--arm_duration", type=int, default=30, help="seconds of work that arm it")
    add("--arm_threshold", type=float, default=0.8, help="mean usage above this is work, 0..1")
    add("--kill_duration", type=int, default=30, help="seconds without work after which it acts")
    add("--kill_threshold", type=float, default=0.7, help="mean usage below this is none, 0..1")
    add("--kill_action", choices=list(_ACTIONS), default="end_process", help="what it does then")
    add("--gpu_devices", type=int, nargs="*", metavar="N", help="the GPUs to average (empty: all)")
    args = parser.parse_args(words)
    for name in ("arm_threshold", "kill_threshold"):
        if not 0 <= getattr(args, name) <= 1:
            parser.error(f"--{name} is a fraction, 0..1")
    return args
