"""A process that keeps one filler: starts it, ends its whole tree, and sees that it does not outlive its owner.

One process supervises one job (see job_tree), so each filler has a keeper of its own. It hears orders on descriptor 3
and answers there; when the other end closes, its owner is gone, however that came, and the filler goes too. Only a
filler that is suspended is left as it is: it holds no GPU, and whoever suspended it meant to keep it.

If the keeper itself is killed, the kernel kills the filler's first process, and the others become the owner's.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from select import POLLIN, poll
from typing import Any

from fallow.actuators.host.become_user import become
from fallow.actuators.process import signals, spawn
from fallow.actuators.process.checkpoint import Checkpoint
from fallow.actuators.process.tree import JobTree, Orphans
from fallow.actuators.process.yield_channel import KeeperLine
from fallow.core.errors import CannotRun, FallowError
from fallow.core.process import Ended, Process
from fallow.engine.fill.log_file import open_log, outputs_are_anybodys
from fallow.engine.fill.suspension import Suspension, resume_all, suspend_all
from fallow.engine.machine.clock import SystemClock
from fallow.engine.machine.inherited_environment import given_environ
from fallow.readers.accounts import account
from fallow.readers.file_trust import Trusted
from fallow.readers.proc import Proc

_LINE = 3
_LARGEST_ORDER = 65536
_NICE = 19
_Work = Callable[[Checkpoint, list[int]], None]


class Keeper:
    """One filler, from its start until nobody of it is left."""

    def __init__(
        self,
        line: socket.socket,
        command: Sequence[str],
        environ: Mapping[str, str],
        before: Callable[[], None],
        suspends: bool,
    ) -> None:
        """Start it; CannotRun or CommandNotFound if that cannot be. `before` runs in its process."""
        self._line = line
        self._clock = SystemClock()
        self._table = Proc()
        self._suspension: Suspension | None = None
        self._wish: tuple[_Work, float, str] | None = None
        self._suspended = False
        self._wake, self._bell = _wake_on_signals()
        orphans = Orphans(self._table, ())
        me = os.getpid()

        def first() -> None:
            signals.be_last(_NICE)
            before()
            signals.die_with_parent(me)  # last: whoever becomes another user is asked no more

        self._yield_line = KeeperLine()
        given = {**environ, **self._yield_line.gives}
        pid = spawn.start_filler(spawn.find(command, environ), command, given, first)
        self._yield_line.started()
        stat = self._table.stat(pid)
        root = Process(pid, 0 if stat is None else stat.birth)
        self._tree = JobTree(self._table, root, self._clock.monotonic_s, orphans)
        self._checkpoint = Checkpoint() if suspends else None

    def keep(self) -> None:
        """Until nobody of the filler is left."""
        self._tell(now="running", pid=self._tree.root.pid)
        if self._checkpoint is not None:
            why_not = self._checkpoint.why_not()
            if why_not is not None:
                self._tell(now="noted", why=f"{why_not}; so it will be killed and not suspended")
        listening = poll()
        listening.register(_LINE, POLLIN)
        listening.register(self._wake, POLLIN)
        listening.register(self._yield_line.fd, POLLIN)
        while True:
            self._tree.reap()
            if self._tree.ended is not None and not self._tree.living():
                self._tell(now="ended", how=_in_words(self._tree.ended))
                return
            ready = {fd for fd, _ in listening.poll(self._patience_ms())}
            if self._wake in ready and signal.SIGTERM in os.read(self._wake, 4096):
                self._kill()
            if _LINE in ready and not self._obey():
                listening.unregister(_LINE)
            if self._yield_line.fd in ready and not self._hear_the_filler():
                listening.unregister(self._yield_line.fd)
            self._mind_the_suspension()

    def _hear_the_filler(self) -> bool:
        """Pass on that its memory is free; False if nobody has the other end any more."""
        freed = self._yield_line.heard()
        if freed:
            self._tell(now="freed")
        return freed is not None

    def _obey(self) -> bool:
        """One order; False if nobody is left to give any."""
        try:
            said = self._line.recv(_LARGEST_ORDER)
        except OSError:
            said = b""
        if not said:
            if not self._suspended:
                self._kill()
            return False
        order = json.loads(said)
        match order["do"]:
            case "ask":
                self._yield_line.let_stay(order["stay_s"])
                self._ask()
            case "insist":
                self._kill()
            case "suspend":
                self._begin(suspend_all, order["within_s"], "suspended")
            case "resume":
                self._begin(resume_all, order["within_s"], "running")
            case other:
                raise FallowError(f"a keeper was told to {other!r}")
        return True

    def _ask(self) -> None:
        """The filler's own group at once, since finding everybody takes time; then whoever is not in it."""
        group = self._tree.root.pid
        if self._tree.ended is None:
            signals.ask_group(group, signal.SIGTERM)
        self._tree.ask(signal.SIGTERM, but_not_group=group if self._tree.ended is None else None)

    def _kill(self) -> None:
        if self._tree.ended is None:
            signals.ask_group(self._tree.root.pid, signal.SIGKILL)
        survivors = self._tree.insist()
        if survivors:
            self._tell(now="survives", why="; ".join(map(str, survivors)))

    def _begin(self, work: _Work, within_s: float, becomes: str) -> None:
        checkpoint = self._checkpoint
        if checkpoint is None:
            return
        if self._suspension is not None:  # one after the other; only the last wish counts
            self._wish = (work, within_s, becomes)
            return
        pids = [row.pid for row in self._tree.living()]
        until_s = self._clock.monotonic_s() + within_s
        self._suspension = Suspension(lambda: work(checkpoint, pids), self._knock, until_s, becomes)

    def _mind_the_suspension(self) -> None:
        """What came of it; a filler that cannot be suspended, or not in time, is killed."""
        under_way = self._suspension
        if under_way is None:
            return
        in_time = self._clock.monotonic_s() < under_way.until_s
        if not under_way.is_over and in_time:
            return
        self._suspension = None
        failure = under_way.failure if under_way.is_over else "it takes too long"
        if failure is None:
            self._suspended = under_way.becomes == "suspended"
            self._tell(now=under_way.becomes, pid=self._tree.root.pid)
            if self._wish is not None:
                wish, self._wish = self._wish, None
                self._begin(*wish)
        else:
            self._suspended = False
            self._tell(now="killed", why=f"it cannot be {under_way.becomes}: {failure}")
            self._kill()

    def _patience_ms(self) -> float | None:
        if self._suspension is None:
            return None
        return max(0.0, self._suspension.until_s - self._clock.monotonic_s()) * 1000 + 1

    def _knock(self) -> None:
        """From the thread: wake the one who waits."""
        os.write(self._bell, b"\0")

    def _tell(self, **what: object) -> None:
        tell(self._line, **what)


def tell(line: socket.socket, **what: object) -> None:
    """One report. Whoever should hear it may have gone."""
    with suppress(OSError):
        line.send(json.dumps(what).encode())


def _wake_on_signals() -> tuple[int, int]:
    """A pipe that becomes readable when a child ends, when somebody asks us to end, or when its other end is used."""
    ours, its = os.pipe()
    for fd in (ours, its):
        os.set_blocking(fd, False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(its, warn_on_full_buffer=False)
    return ours, its


def _in_words(ended: Ended) -> str:
    if ended.by_signal is not None:
        return f"died of {signals.signal_name(ended.by_signal)}"
    return f"ended with exit code {ended.code}"


def _prepare(order: Mapping[str, Any]) -> None:
    """In the filler's own process: be whom it shall run as, where it shall run, with its output where it shall go."""
    trusted = None if order["trusts"] is None else Trusted(frozenset(order["trusts"]), "others must not change it")
    if order["account"] is not None:
        found = account(order["account"])
        if found is None:
            raise CannotRun(f"there is no user {order['account']!r} any more")
        become(found)
        _go_to(order["cwd"])  # again, by their own right
    if order["log"] is not None:
        log = open_log(order["log"], trusted)
    elif order["account"] is not None and not outputs_are_anybodys():
        log = os.open(os.devnull, os.O_WRONLY)
    else:
        return
    os.dup2(log, 1)
    os.dup2(log, 2)


def _go_to(folder: str | None) -> None:
    try:
        if folder is not None:
            os.chdir(folder)
    except OSError as error:
        raise CannotRun(f"{folder}: {error.strerror}") from None


def main() -> None:
    """Keep the filler that the first order names."""
    line = socket.socket(fileno=_LINE)
    os.set_inheritable(_LINE, False)
    try:
        first = line.recv(_LARGEST_ORDER)
    except OSError:
        first = b""
    if not first:
        return  # whoever started us was gone before they said what to keep, and so there is nothing to end
    order = json.loads(first)
    environ = (given_environ(os.environ) if order["environ"] is None else order["environ"]) | order["gives"]
    try:
        _go_to(order["cwd"])
        keeper = Keeper(line, sys.argv[1:], environ, lambda: _prepare(order), order["suspends"])
    except FallowError as error:
        tell(line, now="ended", how=f"could not be started: {error}")
        sys.exit(error.exit_code)
    keeper.keep()


if __name__ == "__main__":
    main()
