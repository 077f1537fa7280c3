"""Reads from /proc who a process is, who owns it, and what it belongs to.

A process is identified by its pid and its birth, in clock ticks since boot: a pid alone may belong to another
process by now.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from fallow.core.annotations import Literal
from fallow.core.gpu import Gpu, Holder
from fallow.core.process import DEEPEST, Pidfds, ProcessRow
from fallow.core.units import printable
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value
from fallow.readers.accounts import user_name
from fallow.readers.file_trust import trusted_program
from fallow.readers.owners.traces import trace
from fallow.readers.proc_files import MOST_OF_COMMAND, open_counts, read_start, read_variables
from fallow.readers.proc_machine import ProcMachine

_ELSEWHERE = Unknown("not in this machine's /proc: another pid namespace, or it has just ended")
_NOT_THERE: dict[str, object] = dict.fromkeys(("birth", "user", "command", "owner"), _ELSEWHERE)

_ASK_ANEW_AFTER = 5  # looks
_MOST_DESCRIBED = 1000
_WALKS = 8
_PF_KTHREAD = 0x00200000
_MOST_OF_CGROUPS = 1 << 16  # version 1 has a line for each of a dozen controllers
_LONGEST_SHOWN = 1000
_MOST_WORDS = 64
Disposition = Literal["catches", "ignores", "default"]
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@value
class Stat(ProcessRow):
    """What is needed of /proc/PID/stat."""

    cpu_ticks: int
    reaped_ticks: int
    """The CPU time of its children that have ended and were waited for, with that of theirs."""
    resident_bytes: int
    terminal: int
    """The device number of the terminal of its session; 0 if it has none."""
    of_kernel: bool
    """Whether it is a kernel thread. The kernel says so; the name of a process does not matter."""

    @property
    def has_terminal(self) -> bool:
        """Return whether its session has a terminal."""
        return self.terminal != 0


class Proc(ProcMachine):
    """A /proc. Its root is a parameter, so that tests can bring their own."""

    pidfds: Pidfds | None = None

    def __init__(self, root: str = "/proc") -> None:
        super().__init__(root)
        self._described: dict[tuple[int, int], tuple[Mapping[str, object], int]] = {}

    @property
    def root(self) -> str:
        """Return where it is mounted."""
        return self._root

    def pids(self) -> list[int]:
        """Return all visible processes."""
        return [int(name) for name in os.listdir(self._root) if name.isdigit()]

    def everybody(self) -> list[Stat]:
        """Return the stat of all visible processes."""
        return [stat for stat in map(self.stat, self.pids()) if stat is not None]

    def stat(self, pid: int) -> Stat | None:
        """Return birth, parent, CPU time and memory; None if there is no such process."""
        raw = self._read(pid, "stat")
        if raw is None:
            return None
        # The command in parentheses may contain spaces and parentheses; the last one closes it.
        rest = raw[raw.rindex(b")") + 2 :].split()
        return Stat(
            pid=pid,
            state=rest[0].decode(),
            parent=int(rest[1]),
            group=int(rest[2]),
            session=int(rest[3]),
            terminal=int(rest[4]),
            of_kernel=bool(int(rest[6]) & _PF_KTHREAD),
            cpu_ticks=int(rest[11]) + int(rest[12]),
            reaped_ticks=int(rest[13]) + int(rest[14]),
            birth=int(rest[19]) or 1,  # 0 means that nobody is there, and a small machine starts its init in tick 0
            resident_bytes=int(rest[21]) * PAGE_BYTES,
        )

    def waited_for_a_core_s(self, pid: int) -> float:
        """Return how long the first thread of a process was ready to run and had no core; 0 if that is not told."""
        told = (self._read(pid, "schedstat") or b"").split()
        return int(told[1]) / 1e9 if len(told) > 1 and told[1].isdigit() else 0.0

    def has_ended(self, pid: int, birth: int) -> bool:
        """Return whether that very process has certainly ended; it has not if only its first thread has."""
        try:
            stat = self.stat(pid)
            if stat is None:
                return not _exists(pid)
            if stat.birth != birth:
                return True
            return stat.state in "ZX" and len(os.listdir(f"{self._root}/{pid}/task")) < 2
        except OSError:
            return False

    def environ(self, pid: int) -> dict[str, str] | None:
        """Return the variables of a process for fallow and CUDA; None if it has ended or may not be read."""
        return read_variables(self._root, pid, (b"FALLOW_", b"CUDA_"))

    def variables(self, pid: int, *names: str) -> dict[str, str] | None:
        """Return some variables of a process, as far as it has them; None if it has ended or may not be read."""
        return read_variables(self._root, pid, tuple(f"{name}=".encode() for name in names))

    def uid(self, pid: int) -> int | None:
        """Return the real and effective user of a process; None if it has ended, is hidden, or has two users.

        The owner of its folder would be root for any process that others may not look into.
        """
        match = re.search(rb"^Uid:\s*(\d+)\s+(\d+)\s", self._read(pid, "status") or b"", re.MULTILINE)
        return int(match[1]) if match and match[1] == match[2] else None

    def disposition(self, pid: int, number: int) -> Disposition | None:
        """Return what a process does with a signal: `catches`, `ignores` or `default`; None if it has ended."""
        status = self._read(pid, "status") or b""
        sets = dict(re.findall(rb"^(SigIgn|SigCgt):\s*([0-9a-f]+)$", status, re.MULTILINE))
        if len(sets) < 2:
            return None
        bit = 1 << (number - 1)
        if int(sets[b"SigCgt"], 16) & bit:
            return "catches"
        return "ignores" if int(sets[b"SigIgn"], 16) & bit else "default"

    def ancestors(self, pid: int) -> Iterator[int]:
        """Return the parent of the process, its parent, and so on."""
        seen = {pid}
        parent = self._parent(pid)
        while parent is not None and parent > 0 and parent not in seen:
            seen.add(parent)
            yield parent
            parent = self._parent(parent)

    def lineage(self, pid: int) -> tuple[int, ...]:
        """Return the process and those above it, as far as programs nest; nothing if it has ended.

        A process that ends meanwhile breaks the chain, and its children get another parent: so this tries again.
        """
        for _ in range(_WALKS):
            line = [pid]
            while (parent := self._parent(line[-1])) is not None:
                if parent == 0 or parent in line or len(line) > DEEPEST:
                    return tuple(line)
                line.append(parent)
        return tuple(line) if _exists(pid) else ()

    def _parent(self, pid: int) -> int | None:
        """Return only the parent; None if the process has ended.

        The kernel still shows one that is being reaped: with 0 as its parent, and in no process group.
        """
        raw = self._read(pid, "stat")
        if raw is None:
            return None
        _, parent, group, _ = raw[raw.rindex(b")") + 2 :].split(None, 3)
        return None if group == b"-1" else int(parent)

    def descendants(self, pid: int) -> list[Stat]:
        """Return all processes below this one, parents before their children."""
        children: dict[int, list[Stat]] = {}
        for stat in self.everybody():
            children.setdefault(stat.parent, []).append(stat)
        found: list[Stat] = []
        todo = [pid]
        while todo:
            below = children.get(todo.pop(), [])
            found.extend(below)
            todo.extend(stat.pid for stat in below)
        return found

    def open_counts(self, pid: int, paths: Collection[str]) -> dict[str, int]:
        """Return how many descriptors the process has on each of these files, as far as they are visible."""
        return open_counts(self._root, pid, paths)

    def cgroups(self, pid: int) -> tuple[str, ...] | None:
        """Return the paths of the cgroups of a process, the unified one first; None if it has ended."""
        raw = read_start(f"{self._root}/{pid}/cgroup", _MOST_OF_CGROUPS)
        if raw is None:
            return None
        lines = [line.split(b":", 2) for line in raw.split(b"\n")]  # names have all that splitlines ends a line at
        return tuple(dict.fromkeys(os.fsdecode(line[2]) for line in reversed(lines) if len(line) == 3))

    def words(self, pid: int) -> list[str]:
        """Return the first words of the command line, as far as one read goes; none if it has ended."""
        words = (self._read(pid, "cmdline") or b"").split(b"\0", _MOST_WORDS)[:_MOST_WORDS]
        return [os.fsdecode(word) for word in words if word]

    def called(self, pid: int) -> set[str]:
        """Return the names of a process: its own, its program's, and its script's or module's. It chooses them."""
        words, comm = self.words(pid), self._read(pid, "comm")
        script = next((word for word in words[1:] if word[:1] != "-"), "")
        return {*(word.rpartition("/")[2] for word in (*words[:1], script)), os.fsdecode(comm or b"").strip()} - {""}

    def trusted_names(self, pid: int) -> set[str]:
        """Return the names of a process that another user cannot have given it.

        Names of root's processes and of this user's are trusted. Of others only the name of the program file counts,
        and only if the same file is in that place here, and only root can have put it there: in their own mount
        namespace any user can give any program any name.
        """
        if self.uid(pid) in (0, os.geteuid()):
            return self.called(pid)
        name = trusted_program(f"{self._root}/{pid}/exe")
        return set() if name is None else {name}

    def command(self, pid: int) -> str | Unknown:
        """Return the command line; the name in brackets if there is none, as for kernel threads."""
        raw = self._read(pid, "cmdline")
        if raw is None:
            return _ELSEWHERE
        words = printable(
            raw.rstrip(b"\0").replace(b"\0", b" ").replace(b"\n", b" ").decode(errors="replace").strip()
        )
        if words:
            return words
        name = self._read(pid, "comm")
        return _ELSEWHERE if name is None else f"[{printable(name.decode(errors='replace').strip())}]"

    def user(self, pid: int) -> str | Unknown:
        """Return the login name of the owner, or the number if there is no name.

        A setuid program belongs to the user who started it: they may signal it.
        """
        try:
            uid = os.stat(f"{self._root}/{pid}").st_uid
        except OSError:
            return _ELSEWHERE
        if uid == 0:
            match = re.search(rb"^Uid:\s*(\d+)", self._read(pid, "status") or b"", re.MULTILINE)
            uid = int(match[1]) if match else uid
        return user_name(uid)

    def describe(self, holder: Holder) -> Holder:
        """Return the same holder with what /proc knows of it. One that /proc does not show is still a holder."""
        return replace(holder, **self._facts(holder.pid))

    def describe_all(self, gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
        """Return the same GPUs with what /proc knows of their holders, each read once."""
        found = tuple(gpus)
        pids = {holder.pid for gpu in found if not isinstance(gpu.holders, Unknown) for holder in gpu.holders}
        facts = {pid: self._facts(pid) for pid in pids}
        return tuple(
            gpu
            if isinstance(gpu.holders, Unknown) or not gpu.holders
            else replace(gpu, holders=tuple(replace(holder, **facts[holder.pid]) for holder in gpu.holders))
            for gpu in found
        )

    def _facts(self, pid: int) -> Mapping[str, object]:
        stat = self.stat(pid)
        return _NOT_THERE if stat is None else self._belongings(pid, stat.birth)

    def _belongings(self, pid: int, birth: int) -> Mapping[str, object]:
        """Return the user, command and owner of a process; read again now and then, since it may exec()."""
        known, used = self._described.get((pid, birth), ({}, 0))
        if not known or used >= _ASK_ANEW_AFTER:
            command = _shown(self.command(pid))
            owner = known["owner"] if known.get("command") == command else trace(self, pid)
            known = {"birth": birth, "user": self.user(pid), "command": command, "owner": owner}
            used = 0
            if len(self._described) >= _MOST_DESCRIBED:
                self._described.clear()
        self._described[pid, birth] = (known, used + 1)
        return known

    def descriptors_visible(self, pid: int) -> bool:
        """Return whether this user may see which files the process has open."""
        return os.access(f"{self._root}/{pid}/fd", os.R_OK, effective_ids=True)

    def running(self, name: str) -> int | Unknown | None:
        """Return the pid of a process with this name, or with this word in its command; None if there is none."""
        pids = self.pids()
        if 1 not in pids:
            return Unknown("/proc shows only some processes (hidepid)")
        for pid in pids:
            if pid == os.getpid():
                continue
            command, comm = self.command(pid), self._read(pid, "comm") or b""
            words = [] if isinstance(command, Unknown) else [word.rpartition("/")[2] for word in command.split()]
            if name in words or comm.decode(errors="replace").strip() == name:
                return pid
        return None

    def _read(self, pid: int, name: str) -> bytes | None:
        return read_start(f"{self._root}/{pid}/{name}", MOST_OF_COMMAND)


def _shown(command: str | Unknown) -> str | Unknown:
    """Return the part that is kept: there may be thousands of processes, and every client gets them all."""
    if isinstance(command, Unknown) or len(command) <= _LONGEST_SHOWN:
        return command
    return f"{command[:_LONGEST_SHOWN]}…"


def _exists(pid: int) -> bool:
    """Return whether there is such a process, even if /proc hides it (hidepid)."""
    try:
        os.close(os.pidfd_open(pid))
    except ProcessLookupError:
        return False
    except OSError:
        return True  # unknown, so it may exist
    return True
