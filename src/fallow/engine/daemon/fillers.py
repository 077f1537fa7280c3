"""The daemon's fillers: a slot for each filler of the config and each of its GPUs."""

from collections.abc import Callable

from fallow.core.errors import FallowError, WrongUsage
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.selection import named_and_visible
from fallow.core.unknown import Unknown
from fallow.engine.config.fillers import Filler
from fallow.engine.config.model import Config
from fallow.engine.fill.filler import Start
from fallow.engine.fill.log_file import outputs_are_pipes
from fallow.engine.fill.loop import FillLoop
from fallow.engine.fill.slot import FillerSlot
from fallow.engine.history.run import Run
from fallow.engine.machine.observe import MISSED_LOOKS
from fallow.readers.accounts import run_as


class Fillers:
    """All filler slots of the config."""

    def __init__(self, run: Run, starter: Start, alert: Callable[[], None]) -> None:
        """`alert` is called as soon as a GPU with a filler on it is opened."""
        self.loop = FillLoop(run, (), alert=alert)
        self._run = run
        self._starter = starter
        self._config = Config()
        self._gpus: tuple[Gpu, ...] = ()
        self._said: set[str] = set()

    def change(self, config: Config) -> None:
        """Apply a config. A slot whose process would be the same is kept."""
        self._config = config
        self.loop.change(self._slots())

    def turn(self, snapshot: Snapshot) -> None:
        """Do what is due once a tick; a GPU that was not there before, or without a UUID, gets its slots."""
        is_new = not _uuids(snapshot.gpus) <= _uuids(self._gpus)
        self._gpus = snapshot.gpus
        if is_new:
            self.loop.change(self._slots())
        self.loop.tick(snapshot)

    def close(self) -> None:
        """Ask all fillers to leave, and kill those that do not."""
        try:
            self.loop.end()
        finally:
            self.loop.close()

    def _slots(self) -> list[FillerSlot]:
        """Return all slots, those with precedence first."""
        gap_s = self._config.machine.every * MISSED_LOOKS
        kept = {(slot.spec.process, slot.uuids): slot for slot in self.loop.slots}
        slots: list[FillerSlot] = []
        for filler in self._config.fillers:
            spec = filler.spec(self._config.terminals, gap_s)
            self._warn_of_lost_output(filler)
            for gpus in self._gpus_of_slots(filler):
                slot = kept.get((spec.process, tuple(str(gpu.uuid) for gpu in gpus)))
                if slot is None:
                    slot = FillerSlot(self._run, spec, gpus, self._starter, prefix=f"{spec.name}: ")
                slot.spec = spec
                slots.append(slot)
        return slots

    def _gpus_of_slots(self, filler: Filler) -> list[tuple[Gpu, ...]]:
        if not self._gpus:
            return []  # nobody has looked yet
        try:
            shown, hidden = named_and_visible(filler.gpus, self._run.world.visible_devices, self._gpus)
        except WrongUsage as error:
            self._say_once(f"{filler.name} waits for its GPUs: {error}")
            return []
        for gpu in (*shown, *hidden):
            if isinstance(gpu.uuid, Unknown):
                self._say_once(f"{filler.name} waits for GPU {gpu.label}: its UUID is {gpu.uuid}")
        known = tuple(gpu for gpu in shown if isinstance(gpu.uuid, str))
        if filler.together:
            return [known] if known and len(known) == len(shown) + len(hidden) else []
        return [(gpu,) for gpu in known]

    def _warn_of_lost_output(self, filler: Filler) -> None:
        if filler.log is not None or self._run.dry_run:
            return
        try:
            run_as_user = run_as(filler.user, self._run.world.environ)
        except FallowError:
            return  # its start fails with the same, and that is reported
        if run_as_user is not None and run_as_user.account is not None and not outputs_are_pipes():
            why = f"because it runs as {filler.user} and has no log"
            self._say_once(f"{filler.name}: its output is discarded, {why}")

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._run.say(sentence)


def _uuids(gpus: tuple[Gpu, ...]) -> frozenset[str]:
    return frozenset(gpu.uuid for gpu in gpus if isinstance(gpu.uuid, str))
