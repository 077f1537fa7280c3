"""The fillers of Slurm as the daemon's main thread has them: in a thread of their own, never waited for."""

from collections.abc import Sequence
from threading import Event, Thread

from fallow.core.errors import FallowError
from fallow.core.reasons import Reason
from fallow.engine.config.fillers import Filler
from fallow.engine.config.model import Config
from fallow.engine.history.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.engine.cluster.filler import SlurmFillerSpec

_EVERY_S = 2.0
_LEAVE_AFTER_S = 15.0
_ENDS = Reason("fallow_ends")


class SlurmFillWatch:
    """Holds the fillers that are jobs of Slurm, if the config has any. Only the main thread changes it."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._config = Config()
        self._loop: SlurmFillLoop | None = None

    def change(self, config: Config) -> None:
        """Apply a config. Fillers whose config is the same go on; the jobs of others end."""
        before, self._config = self._config, config
        same = (before.slurm_fillers, before.cluster.slurm_conf) == (config.slurm_fillers, config.cluster.slurm_conf)
        if same:
            return
        self.end(Reason("config_changed"))
        if not config.slurm_fillers:
            return
        try:
            self._loop = SlurmFillLoop(self._run, config.slurm_fillers, config.cluster.slurm_conf or "")
            self._loop.start()
        except (FallowError, RuntimeError) as error:
            self._loop = None
            self._run.say(f"the fillers of Slurm are not started: {error}")

    def turn(self) -> None:
        """Say what the thread of the fillers wants said."""
        if self._loop is not None:
            self._loop.main.turn()

    def end(self, why: Reason = _ENDS) -> None:
        """End all jobs of the fillers."""
        if self._loop is not None:
            self._loop.end(why)
            self._loop = None


class SlurmFillLoop:
    """Looks at Slurm every few seconds, and tops its fillers up."""

    def __init__(self, run: Run, fillers: Sequence[Filler], conf: str) -> None:
        # A daemon without such a filler loads none of this.
        from fallow.engine.cluster.filler import SlurmFiller
        from fallow.engine.cluster.main_thread import MainThread
        from fallow.engine.cluster.slurm import SlurmEngine
        from fallow.engine.cluster.slurm_commands import SlurmCommands

        world = run.world
        commands = SlurmCommands(world.clock, world.environ, conf)
        commands.demand("scontrol", "squeue", "scancel", "sbatch")
        self.main: MainThread = MainThread(run)
        self._engine: SlurmEngine = SlurmEngine(world.clock, commands)
        self._fillers: list[SlurmFiller] = [
            SlurmFiller(spec_of(one), commands, world.clock, self.main.say, run.journal, dry_run=run.dry_run)
            for one in fillers
        ]
        self._why_it_ends = _ENDS
        self._ending = Event()
        self._thread = Thread(target=self._watch, name="fallow-slurm-fillers", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self, why: Reason) -> None:
        """Let the thread end, and wait for it a while: it cancels the jobs of all fillers."""
        self._why_it_ends = why
        self._ending.set()
        self._thread.join(_LEAVE_AFTER_S)
        self.main.turn()

    def _watch(self) -> None:
        try:
            while not self._ending.is_set():
                self._top_up()
                self._ending.wait(_EVERY_S)
        finally:
            for filler in self._fillers:
                filler.end(self._why_it_ends)

    def _top_up(self) -> None:
        for filler in self._fillers:
            try:
                filler.top_up(self._engine.look)
            except Exception as error:  # noqa: BLE001  whatever broke: nothing is submitted for it now
                self.main.say(f"filler {filler.spec.name}: {type(error).__name__}: {error}")


def spec_of(filler: Filler) -> "SlurmFillerSpec":
    """Return the jobs of a filler of the config, as Slurm gets them."""
    from fallow.engine.cluster.filler import SlurmFillerSpec

    return SlurmFillerSpec(
        filler.name,
        tuple(filler.command),
        filler.partition or "",
        filler.user or "",
        filler.at_home(filler.cwd) or "/",
        filler.at_home(filler.log) or "/dev/null",
        dict(filler.env),
    )
