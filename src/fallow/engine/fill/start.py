"""Starting fillers: real ones with a keeper each, or in a dry run ones that exist only in words."""

import os
import sys
from collections.abc import Mapping
from typing import Protocol

from fallow.actuators.process import spawn
from fallow.actuators.process.filler_process import Filler, adopt
from fallow.core.errors import CannotRun, FallowError
from fallow.core.fillers import Presence, Yield
from fallow.core.gpu import Gpu
from fallow.core.value import value
from fallow.engine.fill.log_file import open_log
from fallow.engine.machine.inherited_environment import without_gpus
from fallow.engine.machine.presence import PresenceRules
from fallow.engine.machine.run_as import refuse_doubtful, run_as
from fallow.engine.machine.world import World
from fallow.engine.machine.yielding_gpus import KEEPER
from fallow.policies.fill import FillRules


@value
class FillerSpec:
    """One kind of work that yields, as a person described it."""

    command: tuple[str, ...]
    rules: FillRules = FillRules()
    presence_rules: PresenceRules = PresenceRules()
    name: str = "filler"
    together: bool = False
    eager: bool = False
    ignore: tuple[str, ...] = ()
    max_temp_c: int | None = None
    log: str | None = None
    cwd: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    """Variables beside those of fallow."""
    user: str | None = None
    """The user it runs as, where a config names one; None: the user who runs fallow."""

    @property
    def process(self) -> tuple[object, ...]:
        """What makes its process what it is. All else are rules, which may change while it runs."""
        suspends = self.rules.manner is Yield.SUSPEND
        return self.name, self.command, self.log, self.cwd, self.env, self.user, suspends


class FillerLike(Protocol):
    """What there is of a filler, and what it can be told."""

    presence: Presence
    pid: int | None
    ended: str | None
    notes: list[str]
    freed_s: float | None

    @property
    def keeper(self) -> int | None: ...
    @property
    def fd(self) -> int | None: ...
    def ask(self, stay_s: float = 0.0) -> None: ...
    def insist(self) -> None: ...
    def suspend(self, within_s: float) -> None: ...
    def resume(self, within_s: float) -> None: ...
    def listen(self) -> None: ...
    def wait(self, timeout_s: float) -> None: ...
    def kill(self) -> None: ...
    def close(self) -> None: ...


class FillerStarter(Protocol):
    """Starts fillers."""

    def start(self, spec: FillerSpec, gpus: tuple[Gpu, ...]) -> FillerLike:
        """Let one in on these GPUs."""


class SystemFillerStarter:
    """Starts real ones, each with a keeper of its own."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.others = adopt(world.proc)
        """The children and sessions of ours that are no filler's, beside helpers."""

    def start(self, spec: FillerSpec, gpus: tuple[Gpu, ...]) -> Filler:
        """Let one in on these GPUs; FallowError if not even its keeper can be started."""
        command = [in_place(word, gpus) for word in spec.command]
        run_as_user = run_as(spec.user, self._world.environ)
        if run_as_user is not None:
            refuse_doubtful(command, spec.cwd, {**run_as_user.environ, **dict(spec.env)}, run_as_user.trusted)
        first = {
            "gives": {**dict(spec.env), **given(self._world, gpus)},
            "environ": None if run_as_user is None or run_as_user.account is None else run_as_user.environ,
            "account": None if run_as_user is None or run_as_user.account is None else run_as_user.account.name,
            "trusts": None if run_as_user is None else sorted(run_as_user.trusted.uids),
            "log": None if spec.log is None else in_place(spec.log, gpus),
            "cwd": "/" if spec.cwd is None and run_as_user is not None else spec.cwd,
            "suspends": spec.rules.manner is Yield.SUSPEND,
        }
        try:
            return Filler(
                (sys.executable, "-P", "-m", KEEPER),
                command,
                without_gpus(self._world.environ),
                first=first,
                table=self._world.proc,
                monotonic_s=self._world.clock.monotonic_s,
                others=self.others,
            )
        except OSError as error:
            raise FallowError(f"no filler can be started: {error.strerror}") from None


class DryRunFiller:
    """Only exists in words."""

    keeper = None
    fd = None

    def __init__(self) -> None:
        self.presence = Presence.RUNNING
        self.pid: int | None = None
        self.ended: str | None = None
        self.notes: list[str] = []
        self.freed_s: float | None = None

    def ask(self, stay_s: float = 0.0) -> None:  # noqa: ARG002  as the protocol has it
        """It leaves."""
        self.presence = Presence.ABSENT

    def insist(self) -> None:
        """It leaves."""
        self.presence = Presence.ABSENT

    def suspend(self, within_s: float) -> None:  # noqa: ARG002  as the protocol has it
        """It is suspended."""
        self.presence = Presence.SUSPENDED

    def resume(self, within_s: float) -> None:  # noqa: ARG002  as the protocol has it
        """It goes on."""
        self.presence = Presence.RUNNING

    def listen(self) -> None:
        """It says nothing."""

    def wait(self, timeout_s: float) -> None:
        """It keeps nobody waiting."""

    def kill(self) -> None:
        """It leaves."""
        self.presence = Presence.ABSENT

    def close(self) -> None:
        """Nothing is left of it."""


class DryRunFillerStarter:
    """Starts nothing."""

    def start(self, spec: FillerSpec, gpus: tuple[Gpu, ...]) -> DryRunFiller:  # noqa: ARG002  as the protocol has it
        """One that only exists in words."""
        return DryRunFiller()


def check_log(spec: FillerSpec, gpus: tuple[Gpu, ...]) -> None:
    """Raise FallowError if the log cannot be written: now, not in the night."""
    if spec.log is not None:
        os.close(open_log(in_place(spec.log, gpus), None))


def check_command(spec: FillerSpec, environ: Mapping[str, str]) -> None:
    """Raise FallowError if the command cannot be run: now, not in the night."""
    first = spec.command[0]
    if "{" in first:
        return  # it depends on the GPU
    if spec.cwd is not None and not os.path.isdir(spec.cwd):
        raise CannotRun(f"{spec.cwd} is no folder to run in")
    if os.sep in first and spec.cwd is not None:
        first = os.path.join(spec.cwd, first)
    spawn.find((first,), environ)


def given(world: World, gpus: tuple[Gpu, ...]) -> dict[str, str]:
    """Return the variables that show the filler its GPUs."""
    own = {
        "CUDA_VISIBLE_DEVICES": ",".join(str(gpu.uuid) for gpu in gpus),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    if world.simulated is None:
        return own
    of_the_machine = ("FALLOW_SIMULATE", "FALLOW_CLAIM_DIR")
    return own | {name: world.environ[name] for name in of_the_machine if name in world.environ}


def in_place(word: str, gpus: tuple[Gpu, ...]) -> str:
    """Return a word of the command with {gpu} and {uuid} replaced."""
    labels, uuids = (",".join(parts) for parts in zip(*((gpu.label, str(gpu.uuid)) for gpu in gpus), strict=True))
    return word.replace("{gpu}", labels).replace("{uuid}", uuids)
