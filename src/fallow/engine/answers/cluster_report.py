"""Make a report of what the GPUs of a cluster did: Prometheus has the seconds that the daemon's /metrics counts."""

from collections.abc import Iterable, Mapping

from fallow.core.activity import UNUSED, Activity
from fallow.core.errors import FallowError, PartMissing, WrongUsage
from fallow.core.money import Prices
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.machine.world import World
from fallow.policies.cost import Line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.engine.config.model import Config

KINDS = ("node", "partition", "account", "qos", "namespace", "user")
"""What the hours of a cluster are added up by."""
_HOUR_S = 3600.0
_NONE = "-"
_NO_PRICE = Unknown("there is no price for all GPUs of the cluster; write it as --price 2.50/h")


@value
class ClusterReport:
    """The hours of each node, user and so on over a span of time, those that waste most first, and their sum."""

    by: str
    since_s: float
    until_s: float
    prices: Prices
    lines: tuple[Line, ...]
    total: Line


def cluster_report(world: World, by: str, since_s: float, until_s: float, given: Prices) -> ClusterReport:
    """Ask the Prometheus that the config names; without prices in `given` those of the config count."""
    from fallow.readers.prometheus.gpu_seconds import gpu_seconds, prometheus_at

    config = _config(world)
    if config.cluster.prometheus is None:
        raise WrongUsage("the config names no Prometheus", "add prometheus = under [cluster]")
    ask = prometheus_at(world.clock, config.cluster.prometheus, config.cluster.token_file or "")
    found = gpu_seconds(ask, by, since_s, until_s)
    if isinstance(found, Unknown):
        raise FallowError(f"what the cluster did cannot be read: {found.why}")
    return report_of(by, since_s, until_s, given if given.given else config.machine.all_prices, found)


def report_of(
    by: str, since_s: float, until_s: float, prices: Prices, found: Mapping[str, Mapping[str, float]]
) -> ClusterReport:
    """Return the report of these seconds in each state, by name."""
    lines = [_line(name or _NONE, states, prices) for name, states in found.items()]
    lines.sort(key=lambda line: (-line.idle_ms, -line.busy_ms, line.name))
    return ClusterReport(by, since_s, until_s, prices, tuple(lines), summed("all", lines))


def summed(name: str, lines: Iterable[Line]) -> Line:
    """Return several lines as one."""
    found = list(lines)
    times = {f"{activity.value}_ms": sum(line.ms(activity) for line in found) for activity in Activity}
    costs = [line.cost for line in found if not isinstance(line.cost, Unknown)]
    return Line((name,), cost=sum(costs) if len(costs) == len(found) else _NO_PRICE, **times)


def _line(name: str, states: Mapping[str, float], prices: Prices) -> Line:
    times = {f"{activity.value}_ms": round(states.get(activity.value, 0.0) * 1000) for activity in Activity}
    wasted_s = sum(states.get(activity.value, 0.0) for activity in UNUSED)
    return Line((name,), cost=_NO_PRICE if prices.default is None else wasted_s / _HOUR_S * prices.default, **times)


def _config(world: World) -> "Config":
    try:
        from fallow.engine.config.load import load
        from fallow.engine.config.location import find
    except ModuleNotFoundError as error:
        raise PartMissing.of("[cluster]", error.name or "a package") from None
    file = find(world.environ, others=True)
    if file is None:
        raise WrongUsage("there is no config, which names the Prometheus", "write one with [cluster]")
    return load(file)
