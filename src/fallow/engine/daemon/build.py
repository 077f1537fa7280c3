"""Build the filler slots and guards of a config; those that exist already and have not changed are kept."""

from collections.abc import Callable, Sequence

from fallow.core.errors import FallowError, WrongUsage
from fallow.core.gpu import Gpu
from fallow.core.selection import named_and_visible
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.config.fillers import Filler
from fallow.engine.config.model import Config
from fallow.engine.config.rules import Guard
from fallow.engine.fill.filler import Start, filler_starter
from fallow.engine.fill.log_file import outputs_are_pipes
from fallow.engine.fill.slot import FillerSlot
from fallow.engine.guard.guard import GuardLoop
from fallow.engine.history.run import Report, Run
from fallow.engine.jobs.perform import HostActuators, host_actuators
from fallow.engine.machine.observe import MISSED_LOOKS
from fallow.readers.accounts import run_as


class Actuators:
    """What a daemon acts with, besides signals. Tests bring their own."""

    def __init__(
        self,
        fillers: Callable[[Run], Start] = filler_starter,
        host: Callable[..., HostActuators] = host_actuators,
    ) -> None:
        """`fillers` returns what starts fillers, `host` what controls power, runs commands and sends notices."""
        self.fillers = fillers
        self.host = host


class DaemonBuilder:
    """Builds filler slots and guards, all with the same starter of fillers."""

    def __init__(self, run: Run, actuators: Actuators) -> None:
        self._run = run
        self._actuators = actuators
        self._world = run.world
        self._said: set[str] = set()
        self._starter = actuators.fillers(run)

    def slots(self, config: Config, gpus: Sequence[Gpu], before: Sequence[FillerSlot]) -> list[FillerSlot]:
        """Return all slots, those with precedence first. A slot whose process would be the same is kept."""
        gap_s = config.machine.every * MISSED_LOOKS
        kept = {(slot.spec.process, slot.uuids): slot for slot in before}
        built: list[FillerSlot] = []
        for filler in config.fillers:
            spec = filler.spec(config.terminals, gap_s)
            self._warn_of_lost_output(filler)
            for slot_gpus in self._gpus_of_slots(filler, gpus):
                slot = kept.get((spec.process, tuple(str(gpu.uuid) for gpu in slot_gpus)))
                if slot is None:
                    slot = FillerSlot(self._run, spec, slot_gpus, self._starter, prefix=f"{spec.name}: ")
                slot.spec = spec
                built.append(slot)
        return built

    def guards(self, config: Config, before: Sequence[tuple[Guard, GuardLoop]]) -> list[tuple[Guard, GuardLoop]]:
        """Return all guards with their definitions. A guard whose definition is the same keeps its state."""
        kept = {guard.name: (guard, guard_loop) for guard, guard_loop in before}
        gap_s = config.machine.every * MISSED_LOOKS
        for _, each in before:
            each.change(gap_s)
        return [
            kept[guard.name] if guard.name in kept and kept[guard.name][0] == guard else self._guard(guard, gap_s)
            for guard in config.guards
        ]

    def _guard(self, guard: Guard, gap_s: float) -> tuple[Guard, GuardLoop]:
        report = self._run.report.prefixed(f"{guard.name}: ")
        if guard.dry_run:
            report = Report(report.say, report.tally)  # without notices, which a daemon that acts would send
        loop = GuardLoop(
            replace(self._run, report=report, dry_run=self._run.dry_run or guard.dry_run),
            guard.rules(gap_s),
            name=guard.name,
            gpus=None if guard.gpus == "all" else guard.gpus,
            unless=guard.unless,
            user=guard.user,
            host=self._actuators.host,
            checked=True,  # with the config; checking at every reload would delay a yield
        )
        return guard, loop

    def _gpus_of_slots(self, filler: Filler, gpus: Sequence[Gpu]) -> list[tuple[Gpu, ...]]:
        try:
            shown, hidden = named_and_visible(filler.gpus, self._world.visible_devices, gpus)
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
            run_as_user = run_as(filler.user, self._world.environ)
        except FallowError:
            return  # its start fails with the same, and that is reported
        if run_as_user is not None and run_as_user.account is not None and not outputs_are_pipes():
            why = f"because it runs as {filler.user} and has no log"
            self._say_once(f"{filler.name}: its output is discarded, {why}")

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._run.say(sentence)
