"""A process that sends one message to several addresses and reports each outcome, or only checks the addresses.

The libraries take much memory, and a service may keep a connection open without end; both end with this process. The
message comes on stdin: addresses contain passwords, and all users can read a command line. It ends with its parent.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from threading import Thread

from fallow.actuators.host import send_notice
from fallow.actuators.process import programs
from fallow.actuators.process.signals import die_with_parent
from fallow.core.errors import CannotRun, CommandNotFound, FallowError, PartMissing, WrongUsage
from fallow.core.findings import Outcome

_START_S = 30.0
"""Longer than an interpreter and the libraries may take to start on a busy machine."""
_KINDS: dict[str, type[FallowError]] = {"missing": PartMissing, "wrong": WrongUsage}
_Answer = list[tuple[str, str]]


def send(
    environ: Mapping[str, str],
    urls: Sequence[str],
    title: str,
    text: str,
) -> list[Outcome]:
    """Send a message from a separate process; return the outcome of each address, without its secrets."""
    order = {"urls": list(urls), "title": title, "text": text}
    try:
        answers = _ask(environ, order, _START_S + send_notice.LIMIT_S)
    except FallowError as error:
        return [Outcome(False, str(error))] * len(urls)
    return [Outcome(kind == "ok", words) for kind, words in answers]


def refusals(environ: Mapping[str, str], urls: Sequence[str]) -> list[FallowError | None]:
    """Return for each address why nothing could ever be sent to it; None if it may work. Nothing is sent."""
    if not urls:
        return []
    try:
        answers = _ask(environ, {"urls": list(urls)}, _START_S)
    except FallowError as error:
        return [error] * len(urls)
    return [None if kind == "ok" else _KINDS[kind](words) for kind, words in answers]


def _ask(environ: Mapping[str, str], order: Mapping[str, object], limit_s: float) -> _Answer:
    urls = order["urls"]
    given = json.dumps({**order, "parent": os.getpid()}).encode()
    try:
        ran = programs.run([sys.executable, "-P", "-m", __name__], environ, limit_s, given)
    except (CommandNotFound, CannotRun) as error:
        raise FallowError(f"no notice could be sent: {error}") from None
    try:
        answers: _Answer = [
            (str(kind), str(words)) for kind, words in json.loads(ran.output.strip().rpartition(b"\n")[2])
        ]
    except (ValueError, TypeError):
        answers = []
    if not isinstance(urls, list) or len(answers) != len(urls):
        # What else it said may repeat an address, and is not passed on.
        raise FallowError("the sending of a notice failed")
    return answers


def main() -> None:
    """Send the message on stdin to all addresses at the same time; without a text, only check them."""
    order = json.load(sys.stdin)
    die_with_parent(order["parent"])
    if "text" in order:

        def work(url: str) -> tuple[str, str]:
            outcome = send_notice.deliver(url, order["title"], order["text"])
            return "ok" if outcome.ok else "failed", outcome.words
    else:
        work = _judged
    print(json.dumps(_for_all(order["urls"], work)))  # noqa: T201


def _judged(url: str) -> tuple[str, str]:
    why = send_notice.refusal(url)
    if why is None:
        return "ok", ""
    return next(kind for kind, error in _KINDS.items() if isinstance(why, error)), str(why)


def _for_all(urls: Sequence[str], work: Callable[[str], tuple[str, str]]) -> _Answer:
    answers: dict[int, tuple[str, str]] = {}

    def one(number: int, url: str) -> None:
        answers[number] = work(url)

    threads = [Thread(target=one, args=pair) for pair in enumerate(urls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [answers[number] for number in sorted(answers)]


if __name__ == "__main__":
    main()
