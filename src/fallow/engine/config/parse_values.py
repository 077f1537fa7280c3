"""Parse the values of the config: fallow's own notations, as text or as plain numbers.

Each function takes a value from TOML and raises WrongUsage if it is wrong, which pydantic collects.
"""

import ipaddress
import re
import shlex
from collections.abc import Callable
from typing import TypeVar

from fallow.core import units
from fallow.core.actions import (
    ACTION_WORDS,
    EndGuard,
    HostAction,
    RunCommand,
    SendSignal,
    parse_action,
    signal_name,
    warning_signal_name,
)
from fallow.core.address_template import AddressTemplate, parse_template
from fallow.core.did_you_mean import did_you_mean
from fallow.core.errors import WrongUsage
from fallow.core.idle_answer import OLDEST_LOOK_S
from fallow.core.money import parse_price
from fallow.engine.conditions.machine import parse_unless
from fallow.engine.conditions.parse import parse_job_condition
from fallow.engine.config.listen_address import Address, address
from fallow.engine.machine.presence import demand_user_idle
from fallow.engine.machine.world import World
from fallow.readers.accounts import from_home

T = TypeVar("T")
_LONGEST_DURATION_S = 10 * 366 * 86400.0
_SHORTEST_TICK_S = 0.05
_LONGEST_TICK_S = OLDEST_LOOK_S / 2
_SHOWN = 30
_LARGEST = 10**18
_ON_IDLE = ("park", "stop")
_SERVICE = ".service"
_SHELL = """write it as ["sh", "-c", "..."]"""
_OTHER_UNITS = frozenset({"scope", "slice", "socket", "timer", "target", "mount", "path", "device", "swap"})


def shown(value: object) -> str:
    """Return any value as a short text on one line, for a message."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return repr(units.shortened(value, _SHOWN))
        case int() if abs(value) >= _LARGEST:
            return "so large a number"
        case int() | float():
            return str(value)
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return "a date or a time"


def text(value: object) -> str:
    """Return a text that is not empty and that the system accepts."""
    if not isinstance(value, str):
        raise WrongUsage(f"{shown(value)} is not text", "write it in quotes")
    if not value.strip():
        raise WrongUsage("the text is empty", "write something, or leave the key out")
    if "\0" in value:
        raise WrongUsage("no text may hold a zero byte", "leave it out")
    return value


def flag(value: object) -> bool:
    """Return a value that must be true or false."""
    if not isinstance(value, bool):
        raise WrongUsage(f"{shown(value)} is neither true nor false", "write true or false, without quotes")
    return value


def _number(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST < value < _LARGEST:
        raise ValueError(f"{shown(value)} is not a {what}")
    return float(value)


def _written(parse: Callable[[str], T], value: object, how: str) -> T:
    """Return the result of a command-line parser, applied to a text or a plain number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        written = shown(value)
    elif isinstance(value, str):
        written = value
    else:
        raise ValueError(f"{shown(value)} is {how}")
    try:
        return parse(written)
    except WrongUsage as error:
        raise WrongUsage(units.printable(error.sentence), units.printable(error.way)) from None


def duration(value: object) -> float:
    """Return the seconds of `"90s"`, `"1h30m"` or 90."""
    seconds = _written(units.duration_s, value, "not a duration; write it as 90, 90s, 10m, 2h or 1h30m")
    if seconds > _LONGEST_DURATION_S:
        raise WrongUsage(f"{shown(value)} is too long", "at most ten years")
    return seconds


def some_time(value: object) -> float:
    """Return a duration that is not zero."""
    seconds = duration(value)
    if seconds <= 0:
        raise WrongUsage("it is no time at all", "write a duration that is longer than zero")
    return seconds


def user_idle(value: object) -> float:
    """Return how long a person at a terminal must be idle to count as away."""
    return demand_user_idle(duration(value))


def tick(value: object) -> float:
    """Return how often to look."""
    seconds = duration(value)
    if seconds < _SHORTEST_TICK_S:
        raise WrongUsage(f"{shown(value)} is too often", f"at least {_SHORTEST_TICK_S:g} s")
    return seconds


def own_tick(value: object) -> float:
    """Return how often to read the GPUs of this machine: what is older is not believed, as by `fallow idle`."""
    seconds = tick(value)
    if seconds > _LONGEST_TICK_S:
        raise WrongUsage(f"{shown(value)} is too seldom", f"at most {_LONGEST_TICK_S:g} s")
    return seconds


def share(value: object) -> float:
    """Return the ratio 0..1 of `"5%"` or 5."""
    return _written(units.ratio, value, "not a per cent; write it as 5 or 5%")


def some_share(value: object) -> float:
    """Return such a ratio that is not zero."""
    return _written(units.some_ratio, value, "not a per cent; write it as 5 or 5%")


def _refuse_quotes(value: object) -> None:
    """Raise WrongUsage if a number is written as text."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}(\.\d{1,18})?", value.strip(), re.ASCII):
        raise WrongUsage(f"{shown(value)} is text, and no number", f"write {value.strip()}, without quotes")


def whole(value: object, least: int, most: int) -> int:
    """Return a whole number between two others."""
    _refuse_quotes(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise WrongUsage(f"{shown(value)} does not fit", f"write a whole number from {least} to {most}")
    return value


def money(value: object) -> float:
    """Return a price: a number, or a text as on the command line."""
    if isinstance(value, str):
        amount, currency = parse_price(value, value, "2.50 or 2.50/h")
        if currency:
            raise WrongUsage("it names a currency", f'write currency = "{currency}", and the number here')
        return amount
    number = _number(value, "price; write a number, as 2.50")
    if number < 0:
        raise WrongUsage("a price below zero would make idle cards earn money", "write a number, as 2.50")
    return number


def currency(value: object) -> str:
    """Return the currency of prices."""
    word = text(value).strip()
    if len(word) > 8 or not word.isprintable() or any(letter.isdigit() or letter.isspace() for letter in word):
        raise WrongUsage(f"{shown(value)} is not a currency", "write it as USD, EUR or €")
    return word


def name(value: object) -> str:
    """Return a name as notices and metrics show it."""
    word = text(value)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", word):
        raise WrongUsage(f"{shown(word)} is not a name", "use letters, digits, '.', '_' and '-', up to 40")
    return word


def command(value: object) -> tuple[str, ...]:
    """Return the words of a command, from a list or a line without signs of a shell; no shell is run."""
    if isinstance(value, str):
        try:
            words = shlex.split(value)
        except ValueError:
            raise WrongUsage("a quotation in the command does not end", "write it as a list of words") from None
        sign = re.search(r"[|&;<>$`]", value)
        if sign is not None:
            raise WrongUsage(f"{sign[0]!r} is for a shell, and no shell runs it", _SHELL)
    elif isinstance(value, list) and all(isinstance(word, str) for word in value):
        words = value
    else:
        raise WrongUsage(f"{shown(value)} is not a command", "write text, or a list of texts")
    if not words or not words[0].strip() or any("\0" in word for word in words):
        raise WrongUsage("the command is empty", 'write it as ["python", "train.py"]')
    return tuple(words)


def place(value: object) -> str:
    """Return an absolute path; `~` is the home of the user who runs fallow."""
    place_at_home(value)
    return from_home(text(value))


def place_at_home(value: object) -> str:
    """Return a path whose `~` is kept, because it is not known yet whose home it is."""
    path = text(value)
    if not from_home(path).startswith("/"):
        raise WrongUsage(f"{shown(value)} does not say from where", "begin it with / or ~/")
    return path


def host(value: object) -> str:
    """Return a host name by which a browser asks for the page: no address, and no port."""
    word = text(value).strip()
    if not re.fullmatch(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?", word, re.ASCII) and not _is_ipv6(word):
        bare = re.fullmatch(r"(?:[a-zA-Z]+://)?([A-Za-z0-9._-]+)(?::\d+)?(?:/.*)?", word, re.ASCII)
        how = f"write it as {bare[1]}" if bare else "write it as gpu-server.example.org"
        raise WrongUsage(f"{shown(value)} is not the name of a machine", f"{how}")
    return word


def _is_ipv6(word: str) -> bool:
    bracketed = re.fullmatch(r"\[(.*)\]", word)
    try:
        ipaddress.IPv6Address(bracketed[1] if bracketed else word)
    except ValueError:
        return False
    return True


def url(value: object) -> str:
    """Return an address to which notices are sent."""
    # Such addresses contain passwords, so no complaint repeats one.
    word = text(value)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*://\S+", word):
        raise WrongUsage(
            "it is not an address for notices", "write it as ntfy://my-topic or mailto://user:password@host"
        )
    return word


def http_url(value: object) -> str:
    """Return the address of a server, without a slash at its end."""
    word = text(value)
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", word):
        # It may hold a password, so no complaint repeats it.
        raise WrongUsage(
            "it is not the address of a server", "write it as http://127.0.0.1:9090, a token goes into token_file"
        )
    return word.rstrip("/")


def template(value: object) -> AddressTemplate:
    """Return a template of addresses to which notices to people are sent."""
    return parse_template(text(value))


def unit(value: object) -> str:
    """Return a shell pattern of units of systemd that can fit one: only services are looked for."""
    word = text(value)
    if not re.fullmatch(r"[A-Za-z0-9:_.@\\*?!\[\]-]+", word, re.ASCII):
        raise WrongUsage(f"{shown(word)} is not the name of a unit", "write it as ollama.service")
    fixed = re.split(r"[*?\]]", word)[-1]  # what the name of a unit must end with
    if fixed.endswith(_SERVICE) or (fixed != word and _SERVICE.endswith(fixed)):
        return word
    start, dot, ending = word.rpartition(".")
    of_another_kind = dot and (ending in _OTHER_UNITS or did_you_mean(ending, ["service"]))
    raise WrongUsage(
        f"{shown(word)} fits no service of systemd", f"write {start if of_another_kind else word}{_SERVICE}"
    )


def notebooks(value: object) -> str:
    """Return a folder or a shell pattern of whole paths; of `~` nobody could say whose home it is."""
    word = text(value)
    if not word.startswith(("/", "*")):
        raise WrongUsage(f"{shown(word)} is not a whole path", "write a whole path, as /home/*/thesis")
    return word


def variable(value: object) -> str:
    """Return the name of an environment variable."""
    word = text(value)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", word, re.ASCII):
        raise WrongUsage(f"{shown(word)} is not the name of a variable", "use letters, digits and '_'")
    if word in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        raise WrongUsage("fallow sets it itself", "name the cards with gpus")
    return word


def setting(value: object) -> str:
    """Return the value of an environment variable."""
    if isinstance(value, str) and "\0" not in value:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST < value < _LARGEST:
        raise WrongUsage(f"{shown(value)} is not text", "write it in quotes")
    return str(value)


def action(value: object) -> HostAction:
    """Return an action that a guard of the daemon can carry out."""
    ways = "write run:COMMAND, notify:URL, shutdown or reboot"
    word = value.partition(":")[0].strip().lower() if isinstance(value, str) else ""
    if word not in ACTION_WORDS:
        raise WrongUsage(f"{shown(value)} is not an action", did_you_mean(word, ACTION_WORDS) or ways)
    found = _written(parse_action, value, "not text")
    if isinstance(found, EndGuard):
        raise WrongUsage("'end' would do nothing here", ways)
    if isinstance(found, SendSignal):
        raise WrongUsage("no process can be named here to signal", "use fallow guard --attach PID, or run:COMMAND")
    return found


def run_line(value: object) -> str:
    """Return the line of shell that `"run:COMMAND"` means."""
    word = value.partition(":")[0].strip().lower() if isinstance(value, str) else ""
    if word != "run":
        raise WrongUsage(f"{shown(value)} is not a command to run", "write it as run:COMMAND")
    found = _written(parse_action, value, "not text")
    assert isinstance(found, RunCommand)
    return found.line


def on_idle(value: object) -> tuple[str, ...]:
    """Return what is done with an idle job, in order: park, stop, or park and else stop."""
    ways = 'write "stop", "park" or ["park", "stop"]'
    words = value if isinstance(value, list | tuple) else [value]
    if not words:
        raise WrongUsage("it names nothing to do", "name park or stop")
    for word in words:
        if word not in _ON_IDLE:
            alike = did_you_mean(word, _ON_IDLE) if isinstance(word, str) else ""
            raise WrongUsage(f"{shown(word)} is not what can be done with an idle job", alike or ways)
    if list(words) not in (["stop"], ["park"], ["park", "stop"]):
        raise WrongUsage("a job is parked first, and stopped if that is not possible", ways)
    return tuple(words)


def condition(value: object) -> str:
    """Return a condition under which a guard does not act."""
    # It is built only to check that it can be; none of them reads anything before it is evaluated.
    return _one_condition(text(value), lambda word: parse_unless(word, World({})))


def job_condition(value: object) -> str:
    """Return a condition under which a job that is idle on its GPUs is in use all the same."""
    return _one_condition(text(value), parse_job_condition)


def _one_condition(written: str, parse: Callable[[str], object]) -> str:
    parts = [part.strip() for part in written.split(",")]
    if len(parts) > 1 and all(_is_right(part, parse) for part in parts):
        in_quotes = ", ".join(f'"{part}"' for part in parts)
        raise WrongUsage(f"{shown(written)} is one text of {len(parts)} conditions", f"write [{in_quotes}]")
    _written(parse, written, "not a condition")
    return written


def _is_right(written: str, parse: Callable[[str], object]) -> bool:
    try:
        parse(written)
    except WrongUsage:
        return False
    return True


def between(value: object) -> tuple[int, int]:
    """Return the minutes of the day that `"22:00-06:00"` means."""
    return _written(units.hours, text(value), "not text")


def listen(value: object) -> Address:
    """Return the address that `"127.0.0.1:8990"` means."""
    return _written(address, text(value), "not text")


def signal(value: object) -> str:
    """Return the name of a signal."""
    return _written(signal_name, value, "not a signal; write its name, as TERM")


def warn_signal(value: object) -> str:
    """Return the name of a signal that processes can catch."""
    return _written(warning_signal_name, value, "not a signal; write its name, as USR1")
