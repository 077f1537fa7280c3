"""Parse the conditions of jobs as people write them: `cpu:50`, `jupyter`, `http:http://127.0.0.1:8000/busy`."""

import re
from collections.abc import Callable

from fallow.core.did_you_mean import most_alike
from fallow.core.errors import WrongUsage
from fallow.core.units import ratio, span_s
from fallow.core.value import value

WAYS = "write cpu:50, jupyter, jupyter:10m, http:URL, file:PATH or file:PATH:10m"
_MOST_PERCENT = 100_000
_ACTIVE_S = 300.0
_LONGEST = 1000
_URL = r"(https?)://([^/?#\s]*?)(?::(\d{1,5}))?((?:[/?][^#\s]*)?)"
_PORTS = 65536
_HERE = ("127.0.0.1", "localhost")


@value
class Url:
    """An address of this machine."""

    port: int
    target: str
    """What is asked for: the path, with the query."""
    tls: bool
    shown: str
    """It without the query, which may hold a secret."""


@value
class Cpu:
    """The processes of the job use more than this of one core."""

    above: float


@value
class Jupyter:
    """Its kernel runs a cell, or was active within this time."""

    within_s: float


@value
class HttpBusy:
    """The server at this address answers 200."""

    url: Url


@value
class Touched:
    """A file was written within this time; without a time, since the last look."""

    path: str
    within_s: float | None


Parsed = Cpu | Jupyter | HttpBusy | Touched


def parse_job_condition(text: str) -> Parsed:
    """Return the condition that a person wrote; raise WrongUsage with what to write instead."""
    if len(text) > _LONGEST or not text.isprintable():
        raise WrongUsage(f"{text[:20]!r}… is too long for a condition, or has control characters in it", WAYS)
    kind, _, rest = text.partition(":")
    kind, rest = kind.strip(), rest.strip()
    if kind in ("http", "https") and rest.startswith("//"):
        raise WrongUsage(f"{text!r} is only an address", f"write http:{text.strip()}")
    read = _KINDS.get(kind)
    if read is None:
        raise WrongUsage(f"{text!r} is not a condition of a job", _meant(kind, rest) or WAYS)
    if not rest and kind != "jupyter":
        raise WrongUsage(f"{text!r} says only half of it", f"write {_EXAMPLES[kind]}")
    return read(rest)


def _meant(kind: str, rest: str) -> str:
    """Return what was probably meant by a kind that does not exist, as it would be right."""
    alike = most_alike(kind.lower().removeprefix("not "), _KINDS)
    written = f"{alike}:{rest}" if rest else alike
    if not alike:
        return ""
    try:
        parse_job_condition(written)
    except WrongUsage:
        return f"write {_EXAMPLES[alike]}"
    return f"did you mean {written}?"


def _cpu(rest: str) -> Cpu:
    try:
        above = ratio(rest, _MOST_PERCENT)
    except WrongUsage:
        raise WrongUsage(
            f"{rest!r} is not a per cent of one core", "write cpu:50, or cpu:200 for two cores"
        ) from None
    if above <= 0:
        raise WrongUsage(f"'cpu:{rest}' is always so", "write more than 0, as cpu:50")
    return Cpu(above)


def _jupyter(rest: str) -> Jupyter:
    if not rest:
        return Jupyter(_ACTIVE_S)
    within_s = span_s(rest)
    if within_s <= 0:
        raise WrongUsage(f"{rest!r} is no time", "write jupyter, or jupyter:10m")
    return Jupyter(within_s)


def _file(rest: str) -> Touched:
    path, colon, within = rest.rpartition(":")
    if not colon or "/" in within:
        path, within_s = rest, None
    else:
        within_s = span_s(within)
        if within_s <= 0:
            raise WrongUsage(f"{within!r} is no time", "write file:PATH:10m, or file:PATH for `since the last look`")
    if not path.startswith("/"):
        raise WrongUsage(f"{path!r} is not the whole path of a file", f"write {_EXAMPLES['file']}")
    return Touched(path, within_s)


def _url(text: str) -> Url:
    found = re.fullmatch(_URL, text)
    if found is None:
        port = text if re.fullmatch(r"\d{1,5}", text, re.ASCII) and 0 < int(text) < _PORTS else "8000"
        raise WrongUsage(f"{text!r} is not an address", f"write {_EXAMPLES['http'].replace('8000', port)}")
    scheme, host, port, target = found.groups()
    if host.lower() not in _HERE:
        raise WrongUsage(f"{host!r} is another machine, which is not asked", f"write {_EXAMPLES['http']}")
    number = int(port) if port else 443 if scheme == "https" else 80
    if not 0 < number < _PORTS:
        raise WrongUsage(f"there is no port {port}", "write one from 1 to 65535")
    if not target.startswith("/"):
        target = f"/{target}"
    return Url(number, target, scheme == "https", f"{scheme}://{host}:{number}{target.partition('?')[0]}")


_EXAMPLES = {
    "cpu": "cpu:50",
    "http": "http:http://127.0.0.1:8000/busy",
    "file": "file:/srv/job/heartbeat:10m",
    "jupyter": "jupyter",
}
_KINDS: dict[str, Callable[[str], Parsed]] = {
    "cpu": _cpu,
    "jupyter": _jupyter,
    "http": lambda rest: HttpBusy(_url(rest)),
    "file": _file,
}
