"""Check the daemon, and the unit that starts it."""

import re
from collections.abc import Iterator
from shlex import quote

from fallow.actuators.process import programs
from fallow.core.api import VERSION
from fallow.core.errors import CannotRun
from fallow.core.units import duration_for_people, printable
from fallow.engine.client.socket_path import sockets_to_ask
from fallow.engine.client.unix_http import NoAnswer
from fallow.engine.doctor.finding import CheckFinding, broken, lacking, ok
from fallow.engine.machine.world import World

_ANSWERS_WITHIN_S = 5.0
_TOO_LONG_AGO_S = 60.0
_ODD_IN_A_UNIT = re.compile(r"[\s\"'\\]")


def daemon(world: World) -> Iterator[CheckFinding]:
    """Check whether the daemon answers, reads the GPUs, and has the version of this fallow."""
    try:
        said = world.daemon(lambda _: None).hello()
    except NoAnswer as error:
        yield broken("daemon", f"its socket exists, but {error}", "systemctl restart fallow")
        return
    if said is None:
        places = " or ".join(map(quote, sockets_to_ask(world.environ)))
        means = f"none at {places}: no history, no page, no rules; the commands work without it"
        yield lacking("daemon", means, "run `fallow up`, or install the unit that `fallow doctor --unit` prints")
        return
    who = f"fallow {said.get('fallow')}, pid {said.get('pid')}, as {said.get('user')}"
    looked_s = said.get("looked_s_ago")
    if said.get("version") != VERSION:
        means = f"{who} has another version: status, why, protect and report work without it"
        yield broken("daemon", means, "systemctl restart fallow")
    elif not isinstance(looked_s, int | float) or looked_s > _TOO_LONG_AGO_S:
        ago = (
            "has not read the GPUs yet"
            if looked_s is None
            else f"has not read the GPUs for {duration_for_people(looked_s)}"
        )
        yield broken("daemon", f"{who} answers, but {ago}", "journalctl -u fallow")
    elif said.get("simulated") != world.simulated:
        on = said.get("simulated") or "real GPUs"
        yield lacking("daemon", f"{who} uses {on}, so it is not asked here")
    else:
        is_dry_run = ", in a dry run" if said.get("dry_run") else ""
        config = said.get("config")
        with_it = "without a config" if config is None else f"with {printable(str(config))}"
        yield ok(
            "daemon", f"{who}, {with_it}{is_dry_run}, up for {duration_for_people(float(said.get('up_s') or 0))}"
        )


def unit(world: World) -> Iterator[CheckFinding]:
    """Check whether systemd starts the daemon."""
    try:
        ran = programs.run(["systemctl", "is-enabled", "fallow.service"], world.environ, _ANSWERS_WITHIN_S)
    except CannotRun:
        yield lacking("service", "there is no systemd here: something else must start `fallow up`")
        return
    said = ran.last_line or "nothing"
    if ran.ok:
        yield ok("service", f"systemd starts it ({said})")
    elif said == "disabled":
        yield lacking("service", "its unit is installed but not enabled", "systemctl enable --now fallow")
    else:
        write = (
            "as root: fallow doctor --unit > /etc/systemd/system/fallow.service, then systemctl enable --now fallow"
        )
        yield lacking("service", f"systemd does not start it (systemctl says: {said})", write)


def in_unit(word: str) -> str:
    """Return the word as it is written into a unit, so that systemd reads it as this one word.

    Quotes and backslashes it refuses in the name of a program, so that such a unit starts nothing.
    """
    escaped = word.replace("%", "%%")
    return _ODD_IN_A_UNIT.sub(lambda found: "".join(f"\\x{each:02x}" for each in found[0].encode()), escaped)
