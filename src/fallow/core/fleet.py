"""The fleet: other hosts with a daemon of their own, as this daemon last heard of them."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

from fallow.core.gpu_status import Status
from fallow.core.reasons import Reason
from fallow.core.value import value

FleetBy = Literal["host", "gpu", "user", "job", "day"]
FLEET_KINDS: tuple[FleetBy, ...] = get_args(FleetBy)
"""What the hours of a fleet are added up by."""


@value
class FleetHost:
    """One host: what its daemon tells, or since when and why it is silent."""

    name: str
    since_wall_s: float
    """Since when it answers, or is silent."""
    status: Status | None = None
    """What its daemon saw last; None while it is silent: what it did before is not what it does."""
    facts: Mapping[str, Any] | None = None
    """The same as the JSON that it told."""
    silent: Reason | None = None
    """Why there is no status; None while it answers."""


@value
class FleetBoard:
    """All hosts of the fleet, in the order of the config; this machine is not among them."""

    hosts: tuple[FleetHost, ...]

    @property
    def up(self) -> int:
        """Return how many answer."""
        return sum(host.status is not None for host in self.hosts)
