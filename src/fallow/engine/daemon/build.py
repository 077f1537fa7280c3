"""From a config to places for fillers and to guards; what is there already and has not changed is kept."""

from collections.abc import Callable, Sequence

from fallow.actuators.process import spawn
from fallow.actuators.process.signals import reap_strangers
from fallow.core.errors import WrongUsage
from fallow.core.gpu import Gpu
from fallow.core.notices import Notice
from fallow.core.selection import select, visible
from fallow.core.unknown import Unknown
from fallow.engine.config import Config
from fallow.engine.config.fillers import Filler
from fallow.engine.config.rules import Guard
from fallow.engine.fill.log_file import outputs_are_anybodys
from fallow.engine.fill.slot import FillerSlot
from fallow.engine.fill.start import (
    DryRunFillerStarter,
    FillerSpec,
    FillerStarter,
    SystemFillerStarter,
)
from fallow.engine.guard.conditions import parse_unless
from fallow.engine.guard.guard import GuardLoop
from fallow.engine.history.counters import Tally
from fallow.engine.history.journal import Journal
from fallow.engine.jobs.executor import InThread
from fallow.engine.jobs.perform import host_actuators
from fallow.engine.machine.observe import MISSED_LOOKS
from fallow.engine.machine.run_as import run_as
from fallow.engine.machine.world import World

Tell = Callable[[str], None]


class DaemonBuilder:
    """Makes places and guards of a config, with the hands that all of them share."""

    def __init__(
        self,
        world: World,
        journal: Journal,
        tell: Tell,
        tally: Tally,
        note: Callable[[Notice], None],
        *,
        dry_run: bool,
    ) -> None:
        self._world = world
        self._journal = journal
        self._tell = tell
        self._tally = tally
        self._note = note
        self._dry_run = dry_run
        self._left_out: set[str] = set()
        # What was judged once is not judged at every reload: that starts programs, and a yield would wait for them.
        spawn.keep_the_ends_of_children()  # here, because a thread that does a deed may not
        self._fill_hands: FillerStarter
        self._children: set[int]
        if dry_run:
            self._fill_hands, self._children = DryRunFillerStarter(), set()
        else:
            earnest = SystemFillerStarter(world)
            self._fill_hands, self._children = earnest, earnest.others

    def reap(self) -> None:
        """Take the ends of orphans that became ours and that nobody waits for; in a dry run none do."""
        if not self._dry_run:
            reap_strangers(self._children | spawn.helpers)

    def fields(self, config: Config, gpus: Sequence[Gpu], before: Sequence[FillerSlot]) -> list[FillerSlot]:
        """All places, those that come first at the front. One whose process would be the same is kept as it is."""
        gap_s = config.machine.every * MISSED_LOOKS
        kept = {(field.spec.process, field.uuids): field for field in before}
        arranged: list[FillerSlot] = []
        for filler in config.fillers:
            spec = filler.spec(config.terminals, gap_s)
            self._tell_unheard(filler)
            for place in self._places(filler, gpus):
                field = kept.get((spec.process, tuple(str(gpu.uuid) for gpu in place)))
                if field is None:
                    field = self._field(spec, place)
                field.spec = spec
                arranged.append(field)
        return arranged

    def guards(self, config: Config, before: Sequence[tuple[Guard, GuardLoop]]) -> list[tuple[Guard, GuardLoop]]:
        """All guards with what they were made of. One whose definition is the same goes on where it stands."""
        kept = {guard.name: (guard, guard_loop) for guard, guard_loop in before}
        gap_s = config.machine.every * MISSED_LOOKS
        return [
            kept[guard.name] if guard.name in kept and kept[guard.name][0] == guard else self._guard(guard, gap_s)
            for guard in config.guards
        ]

    def _field(self, spec: FillerSpec, place: tuple[Gpu, ...]) -> FillerSlot:
        def tell(sentence: str) -> None:
            self._tell(f"{'dry run: ' if self._dry_run else ''}{spec.name}: {sentence}")

        return FillerSlot(
            self._world, spec, place, self._fill_hands, self._journal, tell, tally=self._tally, note=self._note
        )

    def _guard(self, guard: Guard, gap_s: float) -> tuple[Guard, GuardLoop]:
        def tell(sentence: str) -> None:
            self._tell(f"{guard.name}: {sentence}")

        dry_run = self._dry_run or guard.dry_run
        guard_loop = GuardLoop(
            self._world,
            guard.rules(gap_s),
            host_actuators(self._world, dry_run=dry_run, user=guard.user),
            self._journal,
            tell,
            gpus=None if guard.gpus == "all" else guard.gpus,
            blockers=[parse_unless(condition, self._world) for condition in guard.unless],
            is_dry_run=dry_run,
            name=guard.name,
            doer=InThread(f"fallow-guard-{guard.name}"),
            tally=self._tally,
            note=self._note,
        )
        return guard, guard_loop

    def _places(self, filler: Filler, gpus: Sequence[Gpu]) -> list[tuple[Gpu, ...]]:
        seen = {gpu.label for gpu in visible(self._world.visible_devices, tuple(gpus))}
        try:
            named = tuple(gpus) if filler.gpus == "all" else select(filler.gpus, tuple(gpus))
        except WrongUsage as error:
            self._tell_left_out(f"{filler.name} waits for its GPUs: {error}")
            return []
        for gpu in named:
            if isinstance(gpu.uuid, Unknown):
                self._tell_left_out(f"{filler.name} waits for GPU {gpu.label}: its UUID is {gpu.uuid}")
        known = tuple(gpu for gpu in named if gpu.label in seen and isinstance(gpu.uuid, str))
        if filler.together:
            return [known] if known and len(known) == len(named) else []
        return [(gpu,) for gpu in known]

    def _tell_unheard(self, filler: Filler) -> None:
        guise = None if filler.log is not None or self._dry_run else run_as(filler.user, self._world.environ)
        if guise is not None and guise.account is not None and not outputs_are_anybodys():
            as_whom = f"since it runs as {filler.user} and has no log"
            self._tell_left_out(f"{filler.name}: what it prints is thrown away, {as_whom}")

    def _tell_left_out(self, sentence: str) -> None:
        if sentence not in self._left_out:
            self._left_out.add(sentence)
            self._tell(sentence)
