"""Divide what a GPU drew, by the driver's counter, among the intervals in which it drew it.

The counter is read every two minutes. What it grew by from one reading to the next belongs to the intervals between
the two: in proportion to their power, or to their time where the power of some tick is not known. A counter that is
missing, began again or jumped, and a gap in which nobody watched, leave the energy of that time unknown: no number is
made up for it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from fallow.core.unknown import Unknown

_MOST_W = 5000.0  # no GPU draws that much: such a counter has jumped


class Portion(NamedTuple):
    """What was drawn in a part of an interval."""

    number: int
    """The number of the interval."""
    energy_mj: int
    ms: int


class _Share:
    """The time of one interval since the last reading, and its power."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.ms = 0
        self.weight: float | None = 0.0
        """Joules by the readings of power; None if one is missing."""


class EnergyMeter:
    """Follows the counter of one GPU from tick to tick."""

    def __init__(self) -> None:
        self._seen_j: float | None = None
        """The last value; it stays the same until the counter is read again."""
        self._from_j: float | None = None
        """The value where the time in `_shares` began; None if it is not known."""
        self._shares: list[_Share] = []

    def interrupt(self) -> None:
        """Forget what was not metered: nobody watched for a while."""
        self._from_j = None
        self._shares.clear()

    def witness(self, number: int, ms: int, power_w: float | Unknown) -> None:
        """Add some time of an interval."""
        if self._from_j is None or ms <= 0:
            return
        if not self._shares or self._shares[-1].number != number:
            self._shares.append(_Share(number))
        share = self._shares[-1]
        share.ms += ms
        share.weight = None if share.weight is None or isinstance(power_w, Unknown) else share.weight + power_w * ms

    def read(self, energy_j: float | Unknown) -> Iterator[Portion]:
        """Take the counter as this tick has it; return what each interval drew, if it was read again."""
        if isinstance(energy_j, Unknown):
            self._seen_j = None
            self.interrupt()
            return
        if energy_j == self._seen_j:
            return
        # The first value may be older than this tick, so that only the next one says when it was read.
        before_j, self._from_j = self._from_j, None if self._seen_j is None else energy_j
        self._seen_j = energy_j
        shares, self._shares = self._shares, []
        all_ms = sum(share.ms for share in shares)
        if before_j is not None and before_j < energy_j <= before_j + _MOST_W * all_ms / 1000:
            yield from _divided(round((energy_j - before_j) * 1000), shares, all_ms)


def _divided(whole_mj: int, shares: list[_Share], all_ms: int) -> Iterator[Portion]:
    """Divide energy so that the parts add up to the whole."""
    known = [share.weight for share in shares if share.weight is not None]
    by_power = len(known) == len(shares) and sum(known) > 0
    whole = sum(known) if by_power else float(all_ms)
    passed, told_mj = 0.0, 0
    for share in shares:
        passed += (share.weight or 0.0) if by_power else share.ms
        until_mj = round(whole_mj * passed / whole)
        yield Portion(share.number, until_mj - told_mj, share.ms)
        told_mj = until_mj
