"""What follows after a job has ended: the deeds of `--then`, each once, in order, with a countdown before power."""

from collections.abc import Callable

from fallow.core.actions import (
    EndGuard,
    HostAction,
    SendSignal,
    in_words,
    parse_action,
)
from fallow.core.errors import WrongUsage
from fallow.core.findings import Outcome
from fallow.core.protections import Affected
from fallow.core.units import duration_for_people
from fallow.core.value import replace, value
from fallow.engine.history.journal import Journal
from fallow.engine.jobs.perform import HostActuators, perform, touches_machine
from fallow.engine.machine.world import World
from fallow.policies.arbiter import leave_alone

COUNTDOWN_S = 60.0
_ALWAYS = "always:"


@value
class Then:
    """A deed for after the job: only if fallow stopped it, or always."""

    action: HostAction
    always: bool = False


def parse_then(text: str) -> Then:
    """`shutdown`, `run:CMD`, `notify:URL`, `reboot`; after `always:` however the job ended."""
    always = text.startswith(_ALWAYS)
    ways = "write shutdown, reboot, run:COMMAND or notify:URL, with always: before it if it should always follow"
    try:
        action = parse_action(text.removeprefix(_ALWAYS))
    except WrongUsage:
        raise WrongUsage(f"{text!r} is no action for after a job", f"{ways}") from None
    if isinstance(action, EndGuard | SendSignal):
        raise WrongUsage(f"{text!r} makes no sense after a job", f"{ways}")
    return Then(action, always)


class AfterExit:
    """Does what follows."""

    def __init__(
        self, world: World, hands: HostActuators, journal: Journal, tell: Callable[[str], None], *, is_dry_run: bool
    ) -> None:
        self._world = world
        self._hands = hands
        self._journal = journal
        self._tell = tell
        self._is_dry_run = is_dry_run

    def follow(self, thens: tuple[Then, ...], because: str, *, stopped: bool, keys: list[str]) -> None:
        """Each that is due, in order. One that fails is told, and does not keep the others back."""
        for then in thens:
            if not (stopped or then.always):
                continue
            action = replace(then.action, because=because)
            words = in_words(action)
            self._journal.action("after the job", words, because, keys)
            outcome = self._called_off(action, because) or perform(
                action, self._hands, self._world.environ, _nobody_to_signal, "fallow: a job has ended"
            )
            self._journal.outcome("after the job", words, outcome.words, keys)
            self._tell(outcome.words if outcome.ok else f"failed to {words}: {outcome.words}")

    def _called_off(self, action: HostAction, because: str) -> Outcome | None:
        """Count down before the machine goes; a protection, before or during that, calls it off."""
        if not touches_machine((action,)):
            return None
        held = self._held()
        if held is None:
            seconds = duration_for_people(COUNTDOWN_S)
            text = f"about to {in_words(action)} in {seconds}: {because}. To prevent it: fallow protect --for 1h"
            try:  # from the first word on: whoever was told is told, too, that nothing follows
                self._tell(self._hands.power.announce(text).words)
                self._tell(text)
                held = self._held_while_counting()
            except BaseException:
                self._hands.power.announce("called off: fallow was ended")
                raise
        if held is None:
            return None
        self._hands.power.announce(f"called off: {held}")
        return Outcome(False, f"called off: {held}")

    def _held_while_counting(self) -> str | None:
        if self._is_dry_run:
            return None
        clock = self._world.clock
        until_s = clock.monotonic_s() + COUNTDOWN_S
        while (left_s := until_s - clock.monotonic_s()) > 0:
            held = self._held()
            if held is not None:
                return held
            clock.sleep(min(1.0, left_s))
        return self._held()

    def _held(self) -> str | None:
        wall_s = self._world.clock.wall_s()
        return leave_alone(Affected(machine=True), wall_s, self._world.protections.active(wall_s))


def _nobody_to_signal(name: str) -> Outcome:
    return Outcome(False, f"the job that could get SIG{name} has ended")
