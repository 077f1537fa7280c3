"""Run `fallow stop` as the user that a person of the page is: the kernel decides what they may stop.

It is the command itself, in a process of its own that has that user's rights and none of root's. What it answers is
read with limits, since a part of it is text that users wrote. The daemon's journal has what was asked and what came
of it; the steps in between are in the journal of that user.
"""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from fallow.actuators.process import programs
from fallow.core.account import Account, without_gpus
from fallow.core.actions import Ask, in_words
from fallow.core.errors import FallowError, NotPermitted
from fallow.core.reasons import Reason
from fallow.core.units import printable, shortened
from fallow.core.value import value
from fallow.engine.history.journal import Journal
from fallow.engine.machine.world import World
from fallow.readers.accounts import account, run_as

SIGNAL, GRACE_S = "TERM", 10.0
_PROGRAM = (sys.executable, "-I", "-m", "fallow.interfaces.cli.as_user")
_PASSED_ON = (
    "FALLOW_SIMULATE",
    "FALLOW_CLAIM_DIR",
    "FALLOW_SOCKET",
    "FALLOW_DAEMON_TIMEOUT",
    "FALLOW_DRIVER_TIMEOUT",
    "FALLOW_DEVICES",
)
"""What says which machine this is; a user's own journal and config stay theirs."""
_LOOKS_WITHIN_S = 120.0
_STOPS_WITHIN_S = 300.0
_MOST_JOBS = 200
_MOST_KEYS = 2000
_MOST_IN_JOURNAL = 64
_LONGEST = 400
_KEY = re.compile(r"gpu:[A-Za-z0-9:.\-]{1,80}|pid:[0-9]{1,9}@[0-9]{1,19}")
_SUBJECT = re.compile(r"mine|(gpu|pid|container|unit|notebook):[A-Za-z0-9_][\w.@:/+\- ]{0,100}", re.ASCII)


@value
class StoppedOne:
    """A job that was meant: who and what it is, how it is stopped, and what came of it."""

    name: str
    gpus: str
    memory_bytes: int | None
    idle_s: float | None
    way: str
    outcome: str
    """`untouched` before it is stopped, `stopped` or `left`."""
    because: str
    keys: tuple[str, ...]

    @property
    def processes(self) -> tuple[str, ...]:
        """Return its processes as subjects: each is that very process, and never another with its number."""
        return tuple(key for key in self.keys if key.startswith("pid:"))

    @property
    def journal_keys(self) -> list[str]:
        """Return the keys under which the journal keeps what was done to it."""
        return [*self.processes[:_MOST_IN_JOURNAL], *(key for key in self.keys if key.startswith("gpu:"))]


@value
class StopAnswer:
    """What `fallow stop` answered: the jobs that were meant, or why there is none."""

    jobs: tuple[StoppedOne, ...] = ()
    refused: str = ""

    @property
    def ready(self) -> tuple[StoppedOne, ...]:
        """Return the jobs that nothing keeps from being stopped."""
        return tuple(job for job in self.jobs if job.outcome == "untouched")


def is_subject(text: str) -> bool:
    """Return whether a person may name this on the page."""
    return _SUBJECT.fullmatch(text) is not None


class StopsForPersons:
    """Looks at jobs and stops them, as the users that ask. It waits: call it in a thread."""

    def __init__(self, world: World, journal: Journal) -> None:
        self._world = world
        self._journal = journal

    def look(self, who: Account, subjects: Sequence[str]) -> StopAnswer:
        """Return what would be stopped, and how."""
        return self._ask(who, ["--dry-run", *subjects], _LOOKS_WITHIN_S)

    def stop(self, who: Account, jobs: Sequence[StoppedOne], *, dry_run: bool) -> StopAnswer:
        """Stop exactly these jobs, by the processes that they had; return what came of it."""
        left = [key for job in jobs for key in job.processes if not self._has_ended(key)]
        if not left:
            return StopAnswer(refused="nothing is left to stop: all of it has ended meanwhile")
        if dry_run:
            return self._ask(who, ["--dry-run", *left], _LOOKS_WITHIN_S)
        keeps_journal = who.uid != os.geteuid()  # else the command writes into the daemon's own
        if keeps_journal:
            ask = Ask(Reason("by_hand", user=who.name), SIGNAL, GRACE_S)
            for job in jobs:
                self._journal.action(job.name, in_words(ask), ask.reason.with_facts(step="ask"), job.journal_keys)
        answer = self._ask(who, ["--yes", *left], _STOPS_WITHIN_S)
        if keeps_journal:
            self._note_end(jobs, answer)
        return answer

    def _note_end(self, jobs: Sequence[StoppedOne], answer: StopAnswer) -> None:
        for job in answer.jobs or jobs:
            stopped = job.outcome == "stopped"
            because = job.because if answer.jobs else answer.refused
            words = Reason("told", sentence=because, step="stopped") if stopped else because
            self._journal.outcome(job.name, "stopped" if stopped else "stop", words, job.journal_keys)

    def _ask(self, who: Account, words: Sequence[str], limit_s: float) -> StopAnswer:
        try:
            order = self._order(who, ["--log-format=json", "stop", "--json", *words])
            ran = programs.run(_PROGRAM, {"PATH": os.defpath}, limit_s, order)
        except FallowError as error:
            return StopAnswer(refused=str(error))
        if ran.ended is None:
            return StopAnswer(refused=f"there was no answer within {limit_s:.0f} s; look at the GPU again")
        return understood(f"{ran.text}\n{ran.errors.decode(errors='replace')}")

    def _order(self, who: Account, command: Sequence[str]) -> bytes:
        now = account(who.name)
        if now is None or now.uid != who.uid:
            raise NotPermitted(f"there is no user {who.name} any more who has the number {who.uid}")
        ours = without_gpus(self._world.environ)
        guise = run_as(now.name, ours)
        if guise is None and now.uid != os.geteuid():
            raise NotPermitted(f"only a daemon of root can act as {now.name}")
        environ: Mapping[str, str] = ours
        if guise is not None and guise.account is not None:
            environ = guise.environ | {name: ours[name] for name in _PASSED_ON if name in ours}
        who_is_it = [now.name, now.uid, now.gid, now.home, now.shell]
        return json.dumps({"account": who_is_it, "command": list(command), "environ": dict(environ)}).encode()

    def _has_ended(self, key: str) -> bool:
        pid, _, birth = key.removeprefix("pid:").partition("@")
        return self._world.proc.has_ended(int(pid), int(birth))


def understood(output: str) -> StopAnswer:
    """Return what the command answered: its object, or the sentence with which it ended."""
    lines = output.splitlines()
    if "{" in lines and "}" in lines:
        text = "\n".join(lines[lines.index("{") : len(lines) - lines[::-1].index("}")])
        try:
            return StopAnswer(tuple(_job(each) for each in json.loads(text)["jobs"][:_MOST_JOBS]))
        except (ValueError, TypeError, KeyError, AttributeError):
            return StopAnswer(refused="what `fallow stop` answered makes no sense")
    return StopAnswer(refused=next(filter(None, map(_sentence, reversed(lines))), "`fallow stop` did not answer"))


def _sentence(line: str) -> str:
    try:
        return _text(json.loads(line)["message"])
    except (ValueError, TypeError, KeyError):
        return ""


def _job(facts: dict[str, Any]) -> StoppedOne:
    return StoppedOne(
        _text(facts["subject"]),
        _text(", ".join(map(str, facts["gpus"]))),
        facts["memory_bytes"] if isinstance(facts["memory_bytes"], int) else None,
        facts["idle_s"] if isinstance(facts["idle_s"], int | float) else None,
        _text(facts["way"]),
        _text(facts["outcome"]),
        _text(facts["because"]),
        tuple(key for key in map(str, facts["keys"]) if _KEY.fullmatch(key))[:_MOST_KEYS],
    )


def _text(found: object) -> str:
    return shortened(printable(str(found)), _LONGEST)
