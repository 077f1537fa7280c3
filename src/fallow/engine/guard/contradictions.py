"""Find settings of a guard that contradict each other, for the config and for `fallow guard` alike."""

from collections.abc import Callable, Iterator

from fallow.core.actions import PowerOff, Reboot
from fallow.core.value import value
from fallow.policies.guard import GuardRules


@value
class Contradiction:
    """What is wrong with one setting: its key in the config, its place if it is one of several, and the remedy."""

    key: str
    sentence: str
    way: str
    place: int | None = None
    rests_on: str | None = None
    """The key that it contradicts."""


def contradictions_of(rules: GuardRules, spell: Callable[[str], str] = str) -> Iterator[Contradiction]:
    """Yield every contradiction; `spell` writes a key as people give it there, as `--arm-above`."""
    if rules.idle_below > rules.arm_above:
        sentence = "what arms the guard would also be quiet to it"
        most = f"at most {spell('arm_above')}, which is {rules.arm_above * 100:g}"
        yield Contradiction("idle_below", sentence, most, rests_on="arm_above")
    for place, action in enumerate(rules.actions[:-1]):
        if isinstance(action, PowerOff | Reboot):
            yield Contradiction("action", "nothing can follow when the machine is down", "put it last", place)
