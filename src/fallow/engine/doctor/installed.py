"""Check how fallow is installed: which one is started, whether its parts agree, and whether its manual is found."""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from shlex import quote

from fallow.actuators.process.helpers import Helpers
from fallow.actuators.process.spawn import find
from fallow.core.errors import CannotRun, CommandNotFound
from fallow.core.units import printable
from fallow.engine.doctor.finding import CheckFinding, Health, broken, lacking, ok
from fallow.engine.machine.installation import COMPLETION, MAN, VERSION, is_own, on_path, own_program, shared_file
from fallow.engine.machine.unit_words import program_of
from fallow.engine.machine.unix_http import NoAnswer
from fallow.engine.machine.world import World
from fallow.readers.accounts import home as account_home

_ANSWERS_WITHIN_S = 10.0
UNITS = tuple(
    f"{folder}/systemd/system/fallow.service" for folder in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")
)
"""Where systemd looks for the unit; the first one counts."""
_BEGINS = "# fallow as a service of systemd"
"""How a unit begins that fallow wrote. What people wrote themselves is theirs."""


def program(world: World) -> Iterator[CheckFinding]:
    """Check which fallow is started by its name."""
    found = on_path(world.environ.get("PATH", os.defpath))
    ours, folder = quote(own_program()), quote(os.path.dirname(own_program()))
    if not found:
        means = f"{ours} is not on the PATH: `fallow` is no command in a shell"
        yield lacking("command", means, f"add {folder} to the PATH, or link {ours} into a folder of it")
    elif not is_own(found[0]):
        means = f"`fallow` in a shell is {quote(found[0])}, another installation than this one ({ours})"
        yield lacking("command", means, f"remove one of them, or put {folder} first in the PATH")
    else:
        others = [each for each in found[1:] if not is_own(each)]
        beside = f"; there is another one behind it on the PATH, {', '.join(map(quote, others))}" if others else ""
        yield ok("command", f"`fallow` in a shell is {quote(found[0])}, this one{beside}")


def agreement(world: World, units: Iterable[str] = UNITS) -> Iterator[CheckFinding]:
    """Check whether the unit, the daemon, the package and Python are those of this fallow."""
    wrong = [*_of_the_package(), *_of_the_unit(units), *_of_the_daemon(world)]
    if wrong:
        means = "; ".join(each.means for each in wrong)
        remedy = "; ".join(dict.fromkeys(each.remedy for each in wrong))
        worst = broken if any(each.health is Health.BROKEN for each in wrong) else lacking
        yield worst("agreement", means, remedy)
    else:
        yield ok("agreement", f"package, program, unit and daemon are of fallow {VERSION}, as far as they exist")


def _of_the_package() -> Iterator[CheckFinding]:
    from importlib.metadata import PackageNotFoundError, version

    again = "install fallow again, as it was installed"
    try:
        said = version("fallow")
    except PackageNotFoundError:
        said = VERSION
    if said != VERSION:
        means = f"the package says that it is fallow {said}, and its code is fallow {VERSION}"
        yield broken("package", means, again)
    ours = own_program()
    try:
        with open(ours, "rb") as file:
            first = file.readline(1024).decode(errors="replace").strip()
    except OSError:
        return
    python = first.removeprefix("#!").split(" ")[0]
    in_its_folder = os.path.dirname(python) == os.path.dirname(sys.executable)
    if python.startswith("/") and "python" in os.path.basename(python) and not in_its_folder:
        yield broken("program", f"{quote(ours)} starts {quote(python)}, and not {quote(sys.executable)}", again)


def _of_the_unit(units: Iterable[str]) -> Iterator[CheckFinding]:
    path = next(filter(os.path.isfile, units), None)
    if path is None:
        return
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    started = program_of(text)
    write = f"as root: fallow doctor --unit > {path}, then systemctl daemon-reload and systemctl restart fallow"
    if started is None or not os.path.exists(started):
        what = "nothing" if started is None else f"{quote(started)}, which is not there"
        yield broken("unit", f"{path} starts {what}", write)
    elif started != sys.executable and not is_own(started):
        means = f"{path} starts {quote(started)}, another installation than this one ({quote(own_program())})"
        yield lacking("unit", means, write)
    elif text.startswith(_BEGINS) and (missing := _settings(_shipped_unit()) - _settings(text)):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        means = f"{path} is not as fallow {VERSION} writes it: it has no {min(missing)}{more}"
        yield lacking("unit", means, f"{write}; changes of your own belong in a drop-in: systemctl edit fallow")


def _shipped_unit() -> str:
    from importlib.resources import files

    return (files("fallow") / "examples" / "fallow.service").read_text("utf-8")


def _settings(unit: str) -> set[str]:
    """Return the settings of a unit; of a command only how it ends, since the program is not the same everywhere."""
    lines = re.findall(r"^\w+=.*$", unit, re.MULTILINE)
    return {re.sub(r"^(Exec\w+=).*\bfallow\b", r"\1fallow", line.strip()) for line in lines}


def _of_the_daemon(world: World) -> Iterator[CheckFinding]:
    try:
        said = world.daemon(lambda _: None).hello()
    except NoAnswer:
        return  # the check of the daemon says so
    if said is not None and said.get("fallow") != VERSION:
        means = f"the daemon that runs is fallow {printable(str(said.get('fallow')))}, and this is fallow {VERSION}"
        yield lacking("daemon", means, "systemctl restart fallow")


def man_pages(world: World) -> Iterator[CheckFinding]:
    """Check whether `man fallow` finds the page of this fallow."""
    page = shared_file(os.path.join(MAN, "fallow.1"))
    if page is None:
        means = "this installation has none, as it was not installed from a wheel or a package; `fallow help` works"
        yield lacking("man pages", means, "install its wheel or package; in a clone: pip install . (without -e)")
        return
    folder = quote(os.path.dirname(page))
    try:
        ran = Helpers(world.clock.monotonic_s).run(["man", "-w", "fallow"], world.environ, _ANSWERS_WITHIN_S)
    except (CommandNotFound, CannotRun):
        means = f"there is no man here to show them (they are in {folder}); `fallow help` works"
        yield lacking("man pages", means, "install man, on Debian: apt install man-db")
        return
    if ran.ok and os.path.realpath(ran.last_line or "") == os.path.realpath(page):
        yield ok("man pages", f"man finds them, in {folder}")
    else:
        other = (
            f"man finds {printable(ran.last_line)}, of another installation" if ran.ok else "man does not find them"
        )
        place = man_place(world.environ, os.geteuid())
        link = f"{_makes(place)}ln -s {folder}/fallow*.1 {quote(place)}/"
        yield lacking("man pages", f"{other} (they are in {folder}); `fallow help` works", link)


def completion(world: World) -> Iterator[CheckFinding]:
    """Check whether each shell that is here finds its completion."""
    places = completion_places(world.environ)
    here = [shell for shell in places if _is_here(shell, world.environ)]
    without = [shell for shell in here if not any(map(os.path.isfile, places[shell]))]
    if without:
        means = f"{' and '.join(without)} {'does' if len(without) == 1 else 'do'} not find it"
        yield lacking("completion", means, "; ".join(_writes_completion(each, places[each][0]) for each in without))
    elif here:
        yield ok("completion", f"found by {', '.join(here)}")
    else:
        yield ok("completion", f"there is no shell here that it is for ({', '.join(places)})")


def _writes_completion(shell: str, path: str) -> str:
    """Return the line of shell that writes it, with its folder if that is not there yet."""
    return f"{_makes(os.path.dirname(path))}fallow completion {shell} > {quote(path)}"


def _makes(folder: str) -> str:
    return "" if os.path.isdir(folder) else f"mkdir -p {quote(folder)} && "


def man_place(environ: Mapping[str, str], uid: int) -> str:
    """Return the folder of pages that this user can write, and in which man looks: for all users, or for this one."""
    return "/usr/local/share/man/man1" if uid == 0 else f"{_home(environ)}/.local/share/man/man1"


def _home(environ: Mapping[str, str]) -> str:
    return environ.get("HOME") or account_home(None) or "/"


def completion_places(environ: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the files in which each shell looks for the completion of fallow; the first is the user's own."""
    home = _home(environ)
    data_home = environ.get("XDG_DATA_HOME") or os.path.join(home, ".local/share")
    config_home = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    folders = (environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(":")
    shared = {shell: path.removeprefix("share/") for shell, path in COMPLETION.items()}
    of_all = {
        shell: [os.path.join(folder, path) for folder in (data_home, *folders)] for shell, path in shared.items()
    }
    fish = [f"{folder}/fish/completions/fallow.fish" for folder in (config_home, "/etc")]
    zsh = [f"{folder}/_fallow" for folder in (f"{home}/.zfunc", "/usr/share/zsh/vendor-completions")]
    return {
        "bash": [*of_all["bash"], "/etc/bash_completion.d/fallow"],
        "zsh": [*zsh, *of_all["zsh"][1:]],
        "fish": [*fish, *of_all["fish"]],
    }


def _is_here(shell: str, environ: Mapping[str, str]) -> bool:
    try:
        find([shell], environ)
    except (CommandNotFound, CannotRun):
        return False
    return True
