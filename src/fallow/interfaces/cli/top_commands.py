"""What the keys of `fallow top` do: what `fallow why`, `report`, `protect` and `stop` do, without printing."""

from collections.abc import Callable, Sequence
from contextlib import closing

from fallow.core.errors import FallowError
from fallow.core.money import Prices
from fallow.core.protections import with_its_end
from fallow.engine.answers.asker import Asker
from fallow.engine.answers.protect import labels_for, place, release
from fallow.engine.answers.report import open_report
from fallow.engine.answers.why import explain
from fallow.engine.history.run import open_run
from fallow.engine.machine.world import World
from fallow.engine.stop.compose import stop_by_hand
from fallow.interfaces.cli import stop
from fallow.interfaces.render import waste_text, why_text
from fallow.interfaces.render.stop_text import Planned
from fallow.interfaces.stderr import Stderr
from fallow.interfaces.top.commands import Agreed


class TopCommands:
    """Does each on a view of the machine of its own, so that it never meets the looks of the screen."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._under_way: list[Planned] = []

    def why(self, subject: str | None) -> list[str]:
        """Return what `fallow why` prints."""
        with closing(self._fresh()) as world:
            notes: list[str] = []
            return [*why_text.lines(explain(self._asker(world, notes), subject)), *notes]

    def waste(self, for_s: float) -> list[str]:
        """Return who left GPUs idle in the last so many seconds, and what that cost."""
        with closing(self._fresh()) as world:
            notes: list[str] = []
            now_s = world.clock.wall_s()
            with open_report(self._asker(world, notes), now_s - for_s, now_s, Prices()) as report:
                return [*waste_text.waste_lines(report), *notes]

    def protect(self, subjects: Sequence[str], for_s: float, why: str) -> list[str]:
        """Protect each subject, and return what is protected."""
        with closing(self._fresh()) as world:
            asker = self._asker(world, [])
            placed = [place(asker, subject, for_s, why) for subject in subjects]
            labels = labels_for(asker, placed)
            return [with_its_end(each, world.clock.wall_s(), labels) for each in placed]

    def release(self, ids: Sequence[int]) -> list[str]:
        """End these protections, and return what came of each."""
        with closing(self._fresh()) as world:
            asker = self._asker(world, [])
            return [self._released(asker, number) for number in ids]

    @staticmethod
    def _released(asker: Asker, number: int) -> str:
        try:
            return f"protection {release(asker, number)} is released"
        except FallowError as error:
            return str(error)

    def stop(self, subjects: Sequence[str], agreed: Agreed, say: Callable[[str], None]) -> list[str]:
        """Stop what is meant after a person has agreed, and return what came of it."""
        with closing(self._fresh()) as world, open_run(world, say) as opened:
            jobs, by_hand = stop_by_hand(opened)
            planned = stop.plan(subjects, world, jobs, by_hand)
            ready = stop.untouched(planned)
            if ready and not agreed(stop.plan_text(planned), len(ready)):
                return ["nothing was stopped"]
            self._under_way = planned
            try:
                return stop.result_text(planned, stop.stop_now(opened, jobs, by_hand, planned))
            finally:
                self._under_way = []

    def tell_interrupted(self, voice: Stderr) -> None:
        """Say how far a stop has come that is still under way, since the screen is gone."""
        if self._under_way:
            stop.tell_interrupted(self._under_way, voice)

    def _asker(self, world: World, notes: list[str]) -> Asker:
        """Return who asks; `notes` get what a command would write to stderr, which is under the screen."""
        return Asker(world, notes.append, lambda _: None)

    def _fresh(self) -> World:
        return World(self._world.environ)
