"""Start fillers: real ones with a keeper process each, or none in a dry run."""

import os
import sys
from collections.abc import Mapping, Sequence

from fallow.actuators.process import spawn
from fallow.actuators.process.filler_process import Filler
from fallow.core.account import without_gpus
from fallow.core.errors import CannotRun, FallowError
from fallow.core.fillers import Presence, Yield
from fallow.core.gpu import Gpu
from fallow.core.value import value
from fallow.engine.fill.log_file import open_log
from fallow.engine.machine.presence import PresenceRules
from fallow.engine.machine.world import World
from fallow.engine.machine.yielding_gpus import KEEPER
from fallow.policies.fill import FillRules
from fallow.readers.accounts import run_as
from fallow.readers.file_trust import doubt_of_program


@value
class FillerSpec:
    """A filler as a person described it: its command, its rules and its surroundings."""

    command: tuple[str, ...]
    rules: FillRules = FillRules()
    presence_rules: PresenceRules = PresenceRules()
    name: str = "filler"
    together: bool = False
    eager: bool = False
    ignore: tuple[str, ...] = ()
    log: str | None = None
    cwd: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    """Environment variables in addition to those of fallow."""
    user: str | None = None
    """The user it runs as, where a config names one; None: the user who runs fallow."""

    @property
    def process(self) -> tuple[object, ...]:
        """Return what cannot change while it runs. All else are rules, which can."""
        suspends = self.rules.manner is Yield.SUSPEND
        return self.name, self.command, self.log, self.cwd, self.env, self.user, suspends


class SystemFillerStarter:
    """Starts real fillers, each with a keeper process."""

    def __init__(self, world: World) -> None:
        self._world = world

    def start(self, spec: FillerSpec, gpus: tuple[Gpu, ...]) -> Filler:
        """Start a filler on these GPUs; raise FallowError if not even its keeper can be started."""
        command = [substitute(word, gpus) for word in spec.command]
        run_as_user = run_as(spec.user, self._world.environ)
        account = None if run_as_user is None else run_as_user.account
        for_root = run_as_user is not None and account is None
        if for_root:
            self._refuse_doubtful(command, spec)
        first_order = {
            "gives": {**dict(spec.env), **gpu_environ(self._world, gpus)},
            "environ": None if run_as_user is None or account is None else run_as_user.environ,
            "account": None if account is None else account.name,
            "for_root": for_root,
            "log": None if spec.log is None else substitute(spec.log, gpus),
            "cwd": "/" if spec.cwd is None and run_as_user is not None else spec.cwd,
            "suspends": spec.rules.manner is Yield.SUSPEND,
        }
        try:
            return Filler(
                (sys.executable, "-P", "-m", KEEPER),
                command,
                without_gpus(self._world.environ),
                first=first_order,
                table=self._world.proc,
                monotonic_s=self._world.clock.monotonic_s,
            )
        except OSError as error:
            raise FallowError(f"no filler can be started: {error.strerror}") from None

    def _refuse_doubtful(self, command: Sequence[str], spec: FillerSpec) -> None:
        """Raise CannotRun if others than root can change the program."""
        found = doubt_of_program(command, spec.cwd, {**self._world.environ, **dict(spec.env)})
        if found is not None:
            raise CannotRun(f"{found.sentence} ({found.suggestion})")


class DryRunFiller:
    """A filler of a dry run: it has a state, but no process."""

    keeper = None
    fd = None

    def __init__(self) -> None:
        self.presence = Presence.RUNNING
        self.pid: int | None = None
        self.ended: str | None = None
        self.notes: list[str] = []

    def ask(self) -> None:
        """Become absent."""
        self.presence = Presence.ABSENT

    kill = kill_with_keeper = ask

    def suspend(self, within_s: float) -> None:  # noqa: ARG002  as a real one has it
        """Become suspended."""
        self.presence = Presence.SUSPENDED

    def resume(self, within_s: float) -> None:  # noqa: ARG002  as a real one has it
        """Become running."""
        self.presence = Presence.RUNNING

    def wait(self, timeout_s: float = 0.0) -> None:
        """Do nothing: there are no reports, and nothing is open."""

    listen = close = wait


class DryRunFillerStarter:
    """Starts no process."""

    def start(self, spec: FillerSpec, gpus: tuple[Gpu, ...]) -> DryRunFiller:  # noqa: ARG002  as a real one has it
        """Return a filler without a process."""
        return DryRunFiller()


FillerLike = Filler | DryRunFiller
FillerStarter = SystemFillerStarter | DryRunFillerStarter


def check_log(spec: FillerSpec, gpus: tuple[Gpu, ...]) -> None:
    """Raise FallowError if the log cannot be written: at the start, not when a GPU is idle."""
    if spec.log is not None:
        os.close(open_log(substitute(spec.log, gpus)))


def check_command(spec: FillerSpec, environ: Mapping[str, str]) -> None:
    """Raise FallowError if the command cannot be run: at the start, not when a GPU is idle."""
    program = spec.command[0]
    if "{" in program:
        return  # it depends on the GPU
    if spec.cwd is not None and not os.path.isdir(spec.cwd):
        raise CannotRun(f"{spec.cwd} is not a folder to run in")
    if os.sep in program and spec.cwd is not None:
        program = os.path.join(spec.cwd, program)
    spawn.find((program,), environ)


def gpu_environ(world: World, gpus: tuple[Gpu, ...]) -> dict[str, str]:
    """Return the environment variables that give the filler its GPUs."""
    own = {
        "CUDA_VISIBLE_DEVICES": ",".join(str(gpu.uuid) for gpu in gpus),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    if world.simulated is None:
        return own
    simulation = ("FALLOW_SIMULATE", "FALLOW_CLAIM_DIR")
    return own | {name: world.environ[name] for name in simulation if name in world.environ}


def substitute(word: str, gpus: tuple[Gpu, ...]) -> str:
    """Return a word of the command with {gpu} and {uuid} replaced."""
    labels, uuids = (",".join(parts) for parts in zip(*((gpu.label, str(gpu.uuid)) for gpu in gpus), strict=True))
    return word.replace("{gpu}", labels).replace("{uuid}", uuids)
