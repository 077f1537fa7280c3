"""Recognise servers that can let go of a GPU without ending, vLLM and ollama, and ask them what they hold.

A server is known by its command line, which its user chooses, and by the port that the kernel says this very process
listens on. So whoever calls another program `vllm serve` is asked as a vLLM, and no other server is.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise

from fallow.core.http import Endpoint, Http
from fallow.core.parked import ParkWay
from fallow.core.process import Process
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.readers.listening import listening_ports
from fallow.readers.proc import Proc

_ANSWERS_WITHIN_S = 5.0
_MOST_PORTS = 4
_DEEPEST = 16
_MOST_PROCESSES = 512
_MOST_CANDIDATES = 8
_MOST_MODELS = 64
_LONGEST_NAME = 400
_VLLM_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server", "vllm.entrypoints.cli.main")
_NO_DEVELOPMENT_MODE = (404, 405)


@value
class SleepServer:
    """A server of this machine that may be able to sleep."""

    way: ParkWay
    process: Process
    uid: int
    ports: tuple[int, ...]


def may_be_server(proc: Proc, pids: Iterable[int]) -> bool:
    """Return whether the command line of one of these processes, or of one above, is that of such a server.

    It reads no descriptors. Where there are too many processes to look at, it may be one.
    """
    return any(each is None or _way(proc.words(each)) is not None for each, _ in _and_above(proc, pids))


def find_server(proc: Proc, pids: Iterable[int]) -> SleepServer | Unknown | None:
    """Return the first such server among these processes and those above them of the same user.

    Unknown if one of them may be it, but where it listens could not be read.
    """
    doubt: Unknown | None = None
    candidates = 0
    for each, uid in _and_above(proc, pids):
        if each is None:
            return Unknown("not looked for: there are too many processes above it")
        words = proc.words(each)
        way, stat = _way(words), proc.stat(each)
        if way is None or stat is None:
            continue
        candidates += 1
        if candidates > _MOST_CANDIDATES:
            return Unknown(f"not looked for: more than {_MOST_CANDIDATES} of its processes are called so")
        ports = listening_ports(proc, each)
        if isinstance(ports, Unknown):
            doubt = ports
        elif ports:
            return SleepServer(way, Process(each, stat.birth), uid, _in_order(ports, words))
    return doubt


def _and_above(proc: Proc, pids: Iterable[int]) -> Iterator[tuple[int | None, int]]:
    """Yield each of these processes and those above of the same user, once, with the user; None if there are more."""
    depths: dict[int, int] = {}
    steps = 0
    for pid in pids:
        uid = proc.uid(pid)
        for depth, each in enumerate(chain((pid,), islice(proc.ancestors(pid), _DEEPEST))):
            if uid is None or depths.get(each, _DEEPEST + 1) <= depth or proc.uid(each) != uid:
                break
            steps += 1
            if steps > _MOST_PROCESSES:
                yield None, uid
                return
            if each not in depths:
                yield each, uid
            depths[each] = depth


def is_sleeping(http: Http, to: Endpoint) -> bool | Unknown | None:
    """Return whether a vLLM sleeps; None if it cannot: it runs without its development mode."""
    answer = http(to, "GET", "/is_sleeping", {}, _ANSWERS_WITHIN_S)
    if isinstance(answer, Unknown):
        return answer
    if answer.status in _NO_DEVELOPMENT_MODE:
        return None
    try:
        said = json.loads(answer.body)["is_sleeping"] if answer.status == 200 else None
    except (ValueError, TypeError, KeyError, RecursionError):
        said = None
    return said if isinstance(said, bool) else Unknown(f"vLLM does not say whether it sleeps ({answer.status})")


def loaded_models(http: Http, to: Endpoint) -> tuple[str, ...] | Unknown:
    """Return the models that an ollama has in memory."""
    answer = http(to, "GET", "/api/ps", {}, _ANSWERS_WITHIN_S)
    if isinstance(answer, Unknown):
        return answer
    try:
        models = json.loads(answer.body)["models"] if answer.status == 200 else None
        names = [each["name"] for each in models] if isinstance(models, list) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        names = None
    if names is None or len(names) > _MOST_MODELS or not all(_is_name(name) for name in names):
        return Unknown(f"ollama does not say which models it has loaded ({answer.status})")
    return tuple(names)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME


def _way(words: Sequence[str]) -> ParkWay | None:
    names = [word.rpartition("/")[2] for word in words]
    if names[:1] == ["ollama"] and "serve" in words[1:]:
        return ParkWay.OLLAMA
    if any(pair == ("vllm", "serve") for pair in pairwise(names)):
        return ParkWay.VLLM
    return ParkWay.VLLM if any(module in words for module in _VLLM_MODULES) else None


def _in_order(ports: Sequence[int], words: Sequence[str]) -> tuple[int, ...]:
    """Return the ports, first the one that the command line names."""
    named = {word.partition("=")[2] for word in words} | set(words)
    return tuple(sorted(ports, key=lambda port: (str(port) not in named, port))[:_MOST_PORTS])
