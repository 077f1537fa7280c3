"""From a config to places for fillers and to guards; what is there already and has not changed is kept."""

from collections.abc import Callable, Sequence

from fallow.actuators import launcher
from fallow.actuators.processes import reap_strangers
from fallow.core.errors import WrongUsage
from fallow.core.gpu import Gpu
from fallow.core.notices import Notice
from fallow.core.selection import select, visible
from fallow.core.unknown import Unknown
from fallow.engine.config import Config
from fallow.engine.config.fillers import Filler
from fallow.engine.config.rules import Guard
from fallow.engine.counting import Tally
from fallow.engine.deeds import hands
from fallow.engine.doing import Beside
from fallow.engine.field import Field
from fallow.engine.fill_hands import EarnestFillHands, FillerSpec, FillHands, RehearsedFillHands
from fallow.engine.filler_log import outputs_are_anybodys
from fallow.engine.guarding import Guarding
from fallow.engine.guises import guise_of
from fallow.engine.journal import Journal
from fallow.engine.unless import parse_unless
from fallow.engine.watching import MISSED_LOOKS
from fallow.engine.world import World

Tell = Callable[[str], None]


class Arranger:
    """Makes places and guards of a config, with the hands that all of them share."""

    def __init__(
        self,
        world: World,
        journal: Journal,
        tell: Tell,
        tally: Tally,
        note: Callable[[Notice], None],
        *,
        rehearse: bool,
    ) -> None:
        self._world = world
        self._journal = journal
        self._tell = tell
        self._tally = tally
        self._note = note
        self._rehearse = rehearse
        self._left_out: set[str] = set()
        # What was judged once is not judged at every reload: that starts programs, and a yield would wait for them.
        launcher.keep_the_ends_of_children()  # here, because a thread that does a deed may not
        self._fill_hands: FillHands
        self._children: set[int]
        if rehearse:
            self._fill_hands, self._children = RehearsedFillHands(), set()
        else:
            earnest = EarnestFillHands(world)
            self._fill_hands, self._children = earnest, earnest.others

    def reap(self) -> None:
        """Take the ends of orphans that became ours and that nobody waits for; in a rehearsal none do."""
        if not self._rehearse:
            reap_strangers(self._children | launcher.helpers)

    def fields(self, config: Config, gpus: Sequence[Gpu], before: Sequence[Field]) -> list[Field]:
        """All places, those that come first at the front. One whose process would be the same is kept as it is."""
        gap_s = config.machine.every * MISSED_LOOKS
        kept = {(field.spec.process, field.uuids): field for field in before}
        arranged: list[Field] = []
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

    def guards(self, config: Config, before: Sequence[tuple[Guard, Guarding]]) -> list[tuple[Guard, Guarding]]:
        """All guards with what they were made of. One whose definition is the same goes on where it stands."""
        kept = {guard.name: (guard, guarding) for guard, guarding in before}
        gap_s = config.machine.every * MISSED_LOOKS
        return [
            kept[guard.name] if guard.name in kept and kept[guard.name][0] == guard else self._guard(guard, gap_s)
            for guard in config.guards
        ]

    def _field(self, spec: FillerSpec, place: tuple[Gpu, ...]) -> Field:
        def tell(sentence: str) -> None:
            self._tell(f"{'rehearsed: ' if self._rehearse else ''}{spec.name}: {sentence}")

        return Field(
            self._world, spec, place, self._fill_hands, self._journal, tell, tally=self._tally, note=self._note
        )

    def _guard(self, guard: Guard, gap_s: float) -> tuple[Guard, Guarding]:
        def tell(sentence: str) -> None:
            self._tell(f"{guard.name}: {sentence}")

        rehearse = self._rehearse or guard.rehearse
        guarding = Guarding(
            self._world,
            guard.rules(gap_s),
            hands(self._world, rehearse=rehearse, user=guard.user),
            self._journal,
            tell,
            gpus=None if guard.gpus == "all" else guard.gpus,
            blockers=[parse_unless(condition, self._world) for condition in guard.unless],
            rehearsed=rehearse,
            name=guard.name,
            doer=Beside(f"fallow-guard-{guard.name}"),
            tally=self._tally,
            note=self._note,
        )
        return guard, guarding

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
        guise = None if filler.log is not None or self._rehearse else guise_of(filler.user, self._world.environ)
        if guise is not None and guise.account is not None and not outputs_are_anybodys():
            as_whom = f"since it runs as {filler.user} and has no log"
            self._tell_left_out(f"{filler.name}: what it prints is thrown away, {as_whom}")

    def _tell_left_out(self, sentence: str) -> None:
        if sentence not in self._left_out:
            self._left_out.add(sentence)
            self._tell(sentence)
