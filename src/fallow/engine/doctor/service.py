"""Check the daemon, the unit that starts it, and the packages that fallow needs."""

import re
from collections.abc import Iterator
from shlex import quote

from fallow.actuators.process.helpers import Helpers
from fallow.core.api import VERSION
from fallow.core.errors import CannotRun, CommandNotFound
from fallow.core.missing import install
from fallow.core.units import duration_for_people, printable
from fallow.engine.doctor.finding import CheckFinding, broken, lacking, ok
from fallow.engine.machine.socket_path import sockets_to_ask
from fallow.engine.machine.unix_http import NoAnswer
from fallow.engine.machine.world import World

_ANSWERS_WITHIN_S = 5.0
_TOO_LONG_AGO_S = 60.0
_REQUIREMENT = r"([\w.-]+)\s*>=\s*([\d.]+)\s*(?:;\s*extra\s*==\s*['\"](\w+)['\"])?$"
_WITHOUT = {
    "burn": "fallow burn, suspending fillers and parking jobs by the driver do not work on real GPUs; burn does on "
    "simulated ones"
}


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
        ran = Helpers(world.clock.monotonic_s).run(
            ["systemctl", "is-enabled", "fallow.service"], world.environ, _ANSWERS_WITHIN_S
        )
    except (CommandNotFound, CannotRun):
        yield lacking("service", "there is no systemd here: something else must start `fallow up`")
        return
    said = ran.last_line or "nothing"
    if ran.ok:
        yield ok("service", f"systemd starts it ({said})")
    elif said == "disabled":
        yield lacking("service", "its unit is installed but not enabled", "systemctl enable --now fallow")
    elif said.startswith("masked"):
        unmask = "systemctl unmask fallow, then systemctl enable --now fallow"
        yield lacking("service", f"somebody has forbidden systemd to start it (systemctl says: {said})", unmask)
    else:
        write = (
            "as root: fallow doctor --unit > /etc/systemd/system/fallow.service, then systemctl enable --now fallow"
        )
        yield lacking("service", f"no unit is installed (systemctl says: {said})", write)


def parts(world: World) -> Iterator[CheckFinding]:  # noqa: ARG001  every check has this signature
    """Check the packages that fallow needs, and those of its extras."""
    from importlib.metadata import PackageNotFoundError, requires, version

    try:
        needed = requires("fallow") or []
    except PackageNotFoundError:
        yield lacking("packages", "it is not known how fallow was installed, so its packages are not checked")
        return
    wrong: dict[str, dict[str, str]] = {"": {}}
    for name, least, extra in (match.groups("") for line in needed if (match := re.match(_REQUIREMENT, line))):
        of_part, needs = wrong.setdefault(extra, {}), f"'{name}>={least}'"
        try:
            found = version(name)
        except PackageNotFoundError:
            of_part[needs] = f"{name} is not installed"
            continue
        if _numbers(found) < _numbers(least):
            of_part[needs] = f"{name} {found} is older than {least}"
    belongs = wrong.pop("")
    if belongs:
        means = f"{', '.join(belongs.values())}: a part of fallow does not work"
        yield broken("packages", means, install(" ".join(belongs)))
    else:
        yield ok("packages", "all that fallow needs are installed")
    for extra, of_part in sorted(wrong.items()):
        if of_part:
            means = f"{', '.join(of_part.values())}: {_WITHOUT.get(extra, 'a part of fallow does not work')}"
            yield lacking(f"fallow[{extra}]", means, install(" ".join(of_part)))
        else:
            yield ok(f"fallow[{extra}]", "installed")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)[:3]))
