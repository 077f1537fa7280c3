"""Parse the conditions of jobs as people write them: `cpu:50`, `jupyter`, `http:http://127.0.0.1:8000/busy`."""

import re
from collections.abc import Callable
from math import isfinite

from fallow.core.did_you_mean import most_alike
from fallow.core.errors import WrongUsage
from fallow.core.units import ratio, size_bytes, span_s
from fallow.core.value import value

WAYS = (
    "write cpu:50, io:5MB, net:1MB, jupyter, jupyter:10m, http:URL, metric:URL NAME, metric:URL NAME>0, vllm:URL, "
    "file:PATH or file:PATH:10m"
)
_MOST_PERCENT = 100_000
_ACTIVE_S = 300.0
_LONGEST = 1000
_URL = r"(https?)://([^/?#\s]*?)(?::(\d{1,5}))?((?:[/?][^#\s]*)?)"
_PORTS = 65536
_HERE = ("127.0.0.1", "localhost")
_METRIC = r"([A-Za-z_:][A-Za-z0-9_:]*)\s*(?:>\s*(\S+))?"


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
class Io:
    """They read and write more than this, in bytes a second."""

    above_bytes: float


@value
class Net:
    """The network of the job moves more than this, in bytes a second."""

    above_bytes: float


@value
class Jupyter:
    """Its kernel runs a cell, or was active within this time."""

    within_s: float


@value
class HttpBusy:
    """The server at this address answers 200."""

    url: Url


@value
class Metric:
    """A metric of the server at this address is above a number; without a number, it has moved."""

    url: Url
    name: str
    above: float | None


@value
class Vllm:
    """A vLLM server has requests, or has answered some."""

    url: Url


@value
class Touched:
    """A file was written within this time; without a time, since the last look."""

    path: str
    within_s: float | None


Parsed = Cpu | Io | Net | Jupyter | HttpBusy | Metric | Vllm | Touched


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


def rate_bytes(kind: str, rest: str) -> int:
    """Return the bytes a second of `5MB` or `5MB/s`, above which a rate of this kind counts."""
    written = rest.removesuffix("/s").strip()
    try:
        found = size_bytes(written)
    except WrongUsage as error:
        bare = re.fullmatch(r"\d{1,6}(\.\d{1,6})?", written, re.ASCII)
        raise WrongUsage(
            error.sentence, f"write {kind}:{written}MB" if bare else f"write {_EXAMPLES[kind]}"
        ) from None
    if found <= 0:
        raise WrongUsage(f"'{kind}:{rest}' is always so", f"write more than 0, as {_EXAMPLES[kind]}")
    return found


def _jupyter(rest: str) -> Jupyter:
    if not rest:
        return Jupyter(_ACTIVE_S)
    within_s = span_s(rest)
    if within_s <= 0:
        raise WrongUsage(f"{rest!r} is no time", "write jupyter, or jupyter:10m")
    return Jupyter(within_s)


def _metric(rest: str) -> Metric:
    url, _, what = rest.partition(" ")
    found = re.fullmatch(_METRIC, what.strip(), re.ASCII)
    if found is None:
        sentence = f"{what.strip()!r} is not the name of a metric" if what else f"there is no metric behind {url!r}"
        raise WrongUsage(sentence, f"write {_EXAMPLES['metric']}")
    return Metric(_url("metric", url), found[1], None if found[2] is None else _number(found[2]))


def _number(word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise WrongUsage(f"{word!r} is not a number", f"write {_EXAMPLES['metric']}>0")
    return number


def _vllm(rest: str) -> Vllm:
    url = _url("vllm", rest)
    if url.target != "/":
        return Vllm(url)
    return Vllm(Url(url.port, "/metrics", url.tls, f"{url.shown.rstrip('/')}/metrics"))


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


def _url(kind: str, text: str) -> Url:
    found = re.fullmatch(_URL, text)
    if found is None:
        port = text if re.fullmatch(r"\d{1,5}", text, re.ASCII) and 0 < int(text) < _PORTS else "8000"
        raise WrongUsage(f"{text!r} is not an address", f"write {_EXAMPLES[kind].replace('8000', port)}")
    scheme, host, port, target = found.groups()
    if host.lower() not in _HERE:
        raise WrongUsage(f"{host!r} is another machine, which is not asked", f"write {_EXAMPLES[kind]}")
    number = int(port) if port else 443 if scheme == "https" else 80
    if not 0 < number < _PORTS:
        raise WrongUsage(f"there is no port {port}", "write one from 1 to 65535")
    if not target.startswith("/"):
        target = f"/{target}"
    return Url(number, target, scheme == "https", f"{scheme}://{host}:{number}{target.partition('?')[0]}")


_EXAMPLES = {
    "cpu": "cpu:50",
    "io": "io:5MB",
    "net": "net:1MB",
    "http": "http:http://127.0.0.1:8000/busy",
    "metric": "metric:http://127.0.0.1:8000/metrics requests_running",
    "vllm": "vllm:http://127.0.0.1:8000",
    "file": "file:/srv/job/heartbeat:10m",
    "jupyter": "jupyter",
}
_KINDS: dict[str, Callable[[str], Parsed]] = {
    "cpu": _cpu,
    "io": lambda rest: Io(rate_bytes("io", rest)),
    "net": lambda rest: Net(rate_bytes("net", rest)),
    "jupyter": _jupyter,
    "http": lambda rest: HttpBusy(_url("http", rest)),
    "metric": _metric,
    "vllm": _vllm,
    "file": _file,
}
