"""Do what follows after a job has ended: the actions of `--then`, in order, with a countdown before a shutdown."""

from fallow.core.actions import EndGuard, HostAction, SendSignal, in_words, parse_action
from fallow.core.errors import WrongUsage
from fallow.core.findings import Outcome
from fallow.core.protections import Affected
from fallow.core.reasons import Reason
from fallow.core.units import duration_for_people
from fallow.core.value import replace, value
from fallow.engine.history.run import Run
from fallow.engine.jobs.perform import HostActuators, perform, touches_machine
from fallow.policies.arbiter import leave_alone

COUNTDOWN_S = 60.0
_ALWAYS = "always:"


@value
class Then:
    """An action for after the job: only if fallow stopped it, or always."""

    action: HostAction
    always: bool = False


def parse_then(text: str) -> Then:
    """Return the action that a person wrote: `shutdown`, `run:CMD`, …; after `always:` it follows in any case."""
    always = text.startswith(_ALWAYS)
    ways = "write shutdown, reboot, run:COMMAND or notify:URL, with always: before it if it should always follow"
    try:
        action = parse_action(text.removeprefix(_ALWAYS))
    except WrongUsage:
        raise WrongUsage(f"{text!r} is not an action for after a job", ways) from None
    if isinstance(action, EndGuard | SendSignal):
        raise WrongUsage(f"{text!r} makes no sense after a job", ways)
    return Then(action, always)


class AfterExit:
    """Performs the actions of `--then`."""

    def __init__(self, run: Run, actuators: HostActuators) -> None:
        self._run = run
        self._world = run.world
        self._actuators = actuators

    def follow(self, thens: tuple[Then, ...], reason: Reason, *, stopped: bool, keys: list[str]) -> None:
        """Do each action that is due, in order. One that fails is reported, and the others follow."""
        journal = self._run.journal
        for then in thens:
            if not (stopped or then.always):
                continue
            action = replace(then.action, reason=reason)
            words = in_words(action)
            journal.action("after the job", words, reason, keys)
            outcome = self._called_off(action) or perform(
                action,
                self._actuators,
                self._world.environ,
                lambda name: Outcome(False, f"the job that could get SIG{name} has ended"),
                "fallow: a job has ended",
            )
            journal.outcome("after the job", words, outcome.words, keys)
            self._run.say(outcome.words if outcome.ok else f"failed to {words}: {outcome.words}")

    def _called_off(self, action: HostAction) -> Outcome | None:
        """Count down before the machine goes down; a protection, before or during that, calls it off."""
        if not touches_machine((action,)):
            return None
        protected = self._protected()
        if protected is None:
            seconds = duration_for_people(COUNTDOWN_S)
            text = (
                f"about to {in_words(action)} in {seconds}: {action.reason}. To prevent it: fallow protect --for 1h"
            )
            try:  # from the announcement on: people who read it must also read that it is called off
                self._run.say(self._actuators.power.announce(text).words)
                self._run.say(text)
                protected = self._protected_during_countdown()
            except BaseException:
                self._actuators.power.announce("called off: fallow was ended")
                raise
        if protected is None:
            return None
        self._actuators.power.announce(f"called off: {protected}")
        return Outcome(False, f"called off: {protected}")

    def _protected_during_countdown(self) -> Reason | None:
        clock = self._world.clock
        until_s = clock.monotonic_s() + COUNTDOWN_S
        while (left_s := until_s - clock.monotonic_s()) > 0:
            protected = self._protected()
            if protected is not None:
                return protected
            clock.sleep(min(1.0, left_s))
        return self._protected()

    def _protected(self) -> Reason | None:
        wall_s = self._world.clock.wall_s()
        return leave_alone(Affected(machine=True), wall_s, self._world.protections.active(wall_s))
