"""The keeper process of one filler: it starts the filler, ends its whole process tree, and ends it when fallow dies.

A process can supervise one job (see actuators/process/tree), so each filler has a keeper of its own. The keeper reads
orders from descriptor 3 and answers there. When the other end closes, however that came, fallow is gone, and the
keeper kills the filler. Only a suspended filler stays as it is: it uses no GPU, and was suspended to be kept.

If the keeper itself is killed, the kernel kills the filler's first process, and the others go on.
"""

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from select import POLLIN, poll
from typing import Any

from fallow.actuators.host.become_user import become
from fallow.actuators.process import signals, spawn
from fallow.actuators.process.checkpoint import Checkpoint
from fallow.actuators.process.suspend import put_back, take_off
from fallow.actuators.process.tree import JobTree, Orphans
from fallow.core.errors import CannotRun, FallowError
from fallow.core.fillers import IS_FILLER, LARGEST_ORDER
from fallow.core.process import Process, ProcessTable
from fallow.engine.fill.log_file import open_log, outputs_are_pipes
from fallow.engine.machine.clock import SystemClock
from fallow.readers.accounts import account
from fallow.readers.host_memory import why_no_room
from fallow.readers.proc import Proc

_SOCKET_FD = 3
_NICE = 19
_Work = Callable[[Checkpoint, ProcessTable, Sequence[Process]], None]


class _Move:
    """A suspension or resumption that is under way in a thread."""

    def __init__(self, becomes: str, until_s: float) -> None:
        self.becomes = becomes
        self.until_s = until_s
        self.is_over = False
        self.failure: str | None = None
        """Why it failed; None if it succeeded."""


class Keeper:
    """Keeps one filler, from its start until its last process has ended or cannot be killed."""

    def __init__(
        self,
        owner: socket.socket,
        command: Sequence[str],
        environ: Mapping[str, str],
        before: Callable[[], None],
        suspends: bool,
    ) -> None:
        """Start the filler, with `before` run in its process; raise CannotRun if that fails."""
        self._owner = owner
        self._clock = SystemClock()
        self._table = Proc()
        self._move: _Move | None = None
        self._next_order: tuple[_Work, float, str] | None = None
        self._suspended = False
        self._survivors: Sequence[str] | None = None
        """What could not be killed; None until the filler is killed."""
        self._wake_read, self._wake_write = _wake_on_signals()
        orphans = Orphans(self._table)
        me = os.getpid()

        def first() -> None:
            signals.be_last(_NICE)
            before()
            signals.die_with_parent(me)  # last: the kernel forgets it when a process becomes another user

        pid = spawn.start_filler(command, {**environ, IS_FILLER: "1"}, first)
        stat = self._table.stat(pid)
        root = Process(pid, 0 if stat is None else stat.birth)
        self._tree = JobTree(self._table, root, self._clock.monotonic_s, orphans)
        self._checkpoint = Checkpoint() if suspends else None

    def run(self) -> None:
        """Perform orders until the last process of the filler has ended or cannot be killed."""
        send(self._owner, now="running", pid=self._tree.root.pid)
        if self._checkpoint is not None:
            why_not = self._checkpoint.why_not()
            if why_not is not None:
                self._checkpoint = None
                send(self._owner, now="noted", why=f"{why_not}; so it will be asked to end and not suspended")
        poller = poll()
        poller.register(_SOCKET_FD, POLLIN)
        poller.register(self._wake_read, POLLIN)
        while True:
            self._tree.reap()
            ended = self._tree.ended
            if self._survivors is not None or (ended is not None and not self._tree.living()):
                how = "was killed and has not ended" if ended is None else signals.how_it_ended(ended)
                send(self._owner, now="ended", how=how, survivors=list(self._survivors or ()))
                return
            ready = {fd for fd, _ in poller.poll(self._timeout_ms())}
            if self._wake_read in ready and signal.SIGTERM in os.read(self._wake_read, 4096):
                self._kill()
            if _SOCKET_FD in ready and not self._perform_order():
                poller.unregister(_SOCKET_FD)
            self._check_move()

    def _perform_order(self) -> bool:
        """Perform one order; return False if fallow is gone."""
        try:
            message = self._owner.recv(LARGEST_ORDER)
        except OSError:
            message = b""
        if not message:
            if not self._suspended:
                self._kill()
            return False
        order = json.loads(message)
        match order["do"]:
            case "ask":
                self._ask()
            case "kill":
                self._kill()
            case "suspend":
                self._suspend(order["within_s"], order["held_bytes"])
            case "resume":
                self._begin(put_back, order["within_s"], "running")
            case other:
                raise FallowError(f"no such order to a keeper: {other!r}")
        return True

    def _ask(self) -> None:
        """Send SIGTERM to the filler's own process group, then to its other processes, which take time to find."""
        group = self._tree.root.pid
        if self._tree.ended is None:
            signals.signal_group(group, signal.SIGTERM)
        self._tree.ask(signal.SIGTERM, but_not_group=group if self._tree.ended is None else None)

    def _kill(self) -> None:
        if self._tree.ended is None:
            signals.signal_group(self._tree.root.pid, signal.SIGKILL)
        self._survivors = self._tree.kill()

    def _suspend(self, within_s: float, held_bytes: int) -> None:
        """Suspend the filler, or ask it to end if that is impossible: it is killed later if it does not listen."""
        if self._checkpoint is None:
            self._ask()
            return
        why_not = why_no_room(self._table, [row.pid for row in self._tree.living()], held_bytes)
        if why_not is None:
            self._begin(take_off, within_s, "suspended")
        else:
            send(self._owner, now="noted", why=f"{why_not}; so it is asked to end and not suspended")
            self._ask()

    def _begin(self, work: _Work, within_s: float, becomes: str) -> None:
        """Begin in a thread: it takes 0.6 s for each GiB, and meanwhile this thread watches the deadline."""
        checkpoint = self._checkpoint
        if checkpoint is None:
            return
        if self._move is not None:  # one after the other; of those that wait, the last counts
            self._next_order = (work, within_s, becomes)
            return
        living = [row.process for row in self._tree.living()]
        move = self._move = _Move(becomes, self._clock.monotonic_s() + within_s)

        def run() -> None:
            try:
                work(checkpoint, self._table, living)
            except FallowError as error:
                move.failure = str(error)
            except Exception as error:  # noqa: BLE001  whatever the error, the filler is still on its GPUs
                move.failure = f"it failed with {type(error).__name__}: {error}"
            move.is_over = True
            os.write(self._wake_write, b"\0")

        threading.Thread(target=run, daemon=True).start()

    def _check_move(self) -> None:
        """Report the end of a move; kill a filler that cannot be suspended or resumed in time."""
        move = self._move
        if move is None or not (move.is_over or self._clock.monotonic_s() >= move.until_s):
            return
        self._move = None
        failure = move.failure if move.is_over else "it takes too long"
        self._suspended = failure is None and move.becomes == "suspended"
        if failure is not None:
            send(self._owner, now="killed", why=f"it cannot be {move.becomes}: {failure}")
            self._kill()
            return
        send(self._owner, now=move.becomes, pid=self._tree.root.pid)
        if self._next_order is not None:
            order, self._next_order = self._next_order, None
            self._begin(*order)

    def _timeout_ms(self) -> float | None:
        return None if self._move is None else max(0.0, self._move.until_s - self._clock.monotonic_s()) * 1000 + 1


def send(owner: socket.socket, **report: object) -> None:
    """Send one report to fallow, which may be gone."""
    with suppress(OSError):
        owner.send(json.dumps(report).encode())


def _wake_on_signals() -> tuple[int, int]:
    """Return both ends of a pipe that becomes readable at SIGCHLD, at SIGTERM, or when it is written to."""
    read_end, write_end = os.pipe()
    for fd in (read_end, write_end):
        os.set_blocking(fd, False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    return read_end, write_end


def _prepare(order: Mapping[str, Any]) -> None:
    """Set user, folder and output of the filler, in its own process."""
    if order["account"] is not None:
        found = account(order["account"])
        if found is None:
            raise CannotRun(f"there is no user {order['account']!r} any more")
        become(found)
    try:
        if order["cwd"] is not None:
            os.chdir(order["cwd"])
    except OSError as error:
        raise CannotRun(f"{order['cwd']}: {error.strerror}") from None
    if order["log"] is not None:
        log = open_log(order["log"], for_root=order["for_root"])
    elif order["account"] is not None and not outputs_are_pipes():
        log = os.open(os.devnull, os.O_WRONLY)
    else:
        return
    os.dup2(log, 1)
    os.dup2(log, 2)


def main() -> None:
    """Keep the filler that the first order names."""
    owner = socket.socket(fileno=_SOCKET_FD)
    os.set_inheritable(_SOCKET_FD, False)
    try:
        first = owner.recv(LARGEST_ORDER)
    except OSError:
        first = b""
    if not first:
        return  # fallow was gone before its first order, so there is no filler
    order = json.loads(first)
    environ = {**(os.environ if order["environ"] is None else order["environ"]), **order["gives"]}
    try:
        keeper = Keeper(owner, sys.argv[1:], environ, lambda: _prepare(order), order["suspends"])
    except FallowError as error:
        send(owner, now="ended", how=f"could not be started: {error}", survivors=())
        sys.exit(error.exit_code)
    keeper.run()
    os._exit(0)  # at once: fallow waits for this, and a thread may hang in the driver


if __name__ == "__main__":
    main()
