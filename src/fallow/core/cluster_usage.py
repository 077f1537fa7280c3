"""What the GPUs of a cluster did over some time, by node, partition, account, namespace or user, and what it cost."""

from collections.abc import Sequence

from fallow.core.money import Prices
from fallow.core.unknown import Unknown
from fallow.core.value import value

KINDS = ("cluster", "node", "partition", "account", "qos", "namespace", "user")
"""What usage is summed by; `cluster` has one name, `all`."""
_HOUR_S = 3600.0


@value
class UsageRow:
    """What the GPUs of one node, user and so on did, in seconds of one GPU."""

    name: str
    busy_s: float
    idle_s: float
    """Held by jobs and not used, those with nothing on them too."""
    empty_s: float
    """Of `idle_s`: held by jobs that had nothing on any of their GPUs."""
    unknown_s: float
    free_s: float
    """Held by no job; known for nodes and the whole cluster alone."""
    filled_s: float = 0.0
    """Held by background jobs alone, which give way: nobody was kept out, and nothing is wasted."""

    @property
    def held_s(self) -> float:
        """Return for how long GPUs were held by jobs, without background jobs."""
        return self.busy_s + self.idle_s + self.unknown_s


@value
class UsageReport:
    """The sums of one kind over a span of time, those that waste most first, and of the whole cluster."""

    by: str
    since_s: float
    until_s: float
    rows: tuple[UsageRow, ...]
    total: UsageRow
    prices: Prices = Prices()

    def cost(self, row: UsageRow) -> float | Unknown:
        """Return what the idle time cost: one price for all GPUs, since sums do not tell which model they are of."""
        if self.prices.default is None:
            return Unknown("there is no price for all GPUs of the cluster; write it as --price 2.50/h")
        return row.idle_s / _HOUR_S * self.prices.default


def usage_report(
    by: str, since_s: float, until_s: float, rows: Sequence[UsageRow], whole: Sequence[UsageRow], prices: Prices
) -> UsageReport:
    """Return the report of these rows; `whole` has the one row of the whole cluster, if there is any."""
    total = whole[0] if whole else UsageRow("all", 0.0, 0.0, 0.0, 0.0, 0.0)
    return UsageReport(by, since_s, until_s, tuple(rows), total, prices)
