"""Ask several hosts at once, each for a bounded time; what does not answer is a reason that says so.

What a host writes are other people's words: it is bounded, checked, and made printable before it is shown.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from fallow.actuators.process.programs import Ran, run_many
from fallow.core.api import VERSION
from fallow.core.errors import CommandNotFound, FallowError, NotEnoughGpus, PartMissing, WrongUsage
from fallow.core.reasons import Reason
from fallow.core.units import shortened
from fallow.core.value import value
from fallow.engine.machine.world import World
from fallow.engine.remote.ssh import Ssh

Facts = dict[str, Any]
T = TypeVar("T")
ANSWER_WITHIN_S = 30.0
_MOST_BYTES = 8 * 2**20
_LONGEST_TEXT = 1000
_DEEPEST = 12
_MOST_ENTRIES = 4096
_TOO_LARGE = 2**63
_SSH_FAILED = 255
_LONGEST_SENTENCE = 200
WRONG_SHAPE = (
    KeyError,
    TypeError,
    ValueError,
    OverflowError,
    AttributeError,
    IndexError,
    RecursionError,
    FallowError,
)
"""What reading an answer of the wrong shape raises."""


@value
class Refused:
    """A host that answered nothing of use, and why."""

    reason: Reason
    exit_code: int | None = None
    """Of the fallow there; None if it did not end by itself."""

    @property
    def for_lack_of_gpus(self) -> bool:
        """Return whether the host has too few GPUs now; one that never has enough refuses with another code."""
        return self.exit_code == NotEnoughGpus.exit_code


def ask_all(
    world: World,
    ssh: Ssh,
    hosts: Sequence[str],
    words: Sequence[str],
    build: Callable[[Facts], T],
    limit_s: float = ANSWER_WITHIN_S,
) -> list[tuple[str, T | Refused]]:
    """Run one command of fallow on all hosts side by side; return what `build` makes of each answer, in order."""
    commands = [ssh.command(host, words) for host in hosts]
    try:
        ran = run_many(commands, world.environ, limit_s, _MOST_BYTES)
    except CommandNotFound:
        raise PartMissing(
            f"--on needs {ssh.words[0]}, which is not installed", "install openssh-client, or set FALLOW_SSH"
        ) from None
    return [(host, _answer(ssh, each, limit_s, build)) for host, each in zip(hosts, ran, strict=True)]


def _answer(ssh: Ssh, ran: Ran, limit_s: float, build: Callable[[Facts], T]) -> T | Refused:
    if ran.cut:
        return Refused(Reason("host_makes_no_sense", why="its answer does not end"))
    if ran.ended is None:
        return Refused(Reason("host_silent", limit_s=limit_s))
    code = ran.ended.exit_code
    if code != 0:
        return Refused(_failure(ssh, code, ran.errors), code)
    try:
        facts = checked(ran.output)
    except WRONG_SHAPE as error:
        return Refused(Reason("host_makes_no_sense", why=_sentence(str(error)) or type(error).__name__))
    if facts.get("version") != VERSION:
        return Refused(Reason("host_other_version", version=shortened(str(facts.get("version")), 20), ours=VERSION))
    try:
        return build(facts)
    except WRONG_SHAPE as error:
        return Refused(Reason("host_makes_no_sense", why=_sentence(f"{type(error).__name__}: {error}")))


def _failure(ssh: Ssh, code: int, errors: bytes) -> Reason:
    said = _first_sentence(errors)
    if code == _SSH_FAILED:
        return Reason("host_unreachable", why=said or "ssh gives no reason")
    if code in (126, 127):
        return Reason("host_without_fallow", program=shortened(ssh.fallow, 60), why=said or f"exit code {code}")
    if code == WrongUsage.exit_code and not _is_told_of_values(errors):
        return Reason("host_does_not_take", why=said or f"exit code {code}")
    return Reason("host_refuses", why=said or f"exit code {code}")


def _is_told_of_values(errors: bytes) -> bool:
    """Return whether fallow there understood every word, and refuses what was asked for.

    A sentence about a word that it does not know points to the help; an older fallow does not know all.
    """
    lines = errors.decode(errors="replace").splitlines()
    told = next((line for line in lines if line.startswith("fallow: ")), None)
    return told is not None and not told.rstrip().endswith(" --help)")


def _first_sentence(errors: bytes) -> str:
    """Return what fallow there said first, or else the last line: the reason of ssh, or of a shell."""
    lines = [line.strip() for line in errors.decode(errors="replace").splitlines() if line.strip()]
    told = next((line for line in lines if line.startswith("fallow: ")), lines[-1] if lines else "")
    return _sentence(told.removeprefix("fallow: "))


def _sentence(text: str) -> str:
    return shortened(text, _LONGEST_SENTENCE)


def checked(output: bytes) -> Facts:
    """Return the object in an answer, with texts of bounded length, and no number that is none."""
    facts = json.loads(output.decode(errors="replace"), parse_constant=_no_number)
    if not isinstance(facts, dict):
        raise TypeError("it is no object")
    return {str(name)[:_LONGEST_TEXT]: _bounded(each, _DEEPEST) for name, each in facts.items()}


def _bounded(fact: Any, depth: int) -> Any:  # noqa: ANN401  whatever it is
    if isinstance(fact, str):
        return fact[:_LONGEST_TEXT]
    if isinstance(fact, (int, float)) and not abs(fact) < _TOO_LARGE:  # 1e999 is read as infinite
        raise ValueError("a number in it is too large")
    if isinstance(fact, (list, dict)):
        if len(fact) > _MOST_ENTRIES or not depth:
            raise ValueError("it is too long or too deep")
        if isinstance(fact, list):
            return [_bounded(each, depth - 1) for each in fact]
        return {str(name)[:_LONGEST_TEXT]: _bounded(each, depth - 1) for name, each in fact.items()}
    return fact


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")
