"""`[fleet]` and `[[fleet.hosts]]`: the daemons of other machines that this one asks and shows."""

from fallow.engine.config import types
from fallow.engine.config.base import Section, by_default


class FleetMember(Section):
    """Another machine, on which `fallow up` serves its page."""

    name: types.Name
    """The name that page, status and notices show; each host needs its own."""
    url: types.HttpUrl
    """The address of its page, as `"http://gpu1.example.org:8990"`; with `https` its certificate is checked."""
    token_file: types.Place | None = by_default(None)
    """A file with the token of that page. Nobody but the user who runs fallow should be able to read it."""


class Fleet(Section):
    """Other machines that this daemon asks, and shows on its page and in its report."""

    hosts: tuple[FleetMember, ...] = by_default(())
    """The other machines, at most 64; there may be several."""
    every: types.Tick = by_default("5s")
    """How often each is asked."""
    silent_for: types.SomeTime = by_default("1m")
    """How long a host must be silent before people are told: notices `host_silent` and `host_back`."""
