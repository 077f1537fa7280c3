"""Read what /proc says of the machine as a whole, and of this process."""

import os
import re

from fallow.core.unknown import Unknown
from fallow.readers.proc_files import read_start, read_whole

_FIRST_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel


class ProcMachine:
    """The part of a /proc that is not about one process."""

    def __init__(self, root: str) -> None:
        self._root = root

    def whose_pids(self) -> str | None:
        """Return why the pids of this /proc cannot be used for signals; None if they can, or there is no /proc."""
        try:
            shown = os.readlink(f"{self._root}/self")
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"{self._root}/self cannot be read: {error.strerror}"
        if shown == str(os.getpid()):
            return None
        return (
            f"{self._root} is that of another pid namespace: we are pid {os.getpid()} and it shows us as {shown}. "
            f"Mount one of our own (unshare --pid --fork --mount-proc), or run fallow outside"
        )

    def pid_namespace(self) -> int | None:
        """Return the number of the pid namespace whose pids are shown; None if they cannot be used for signals."""
        if self.whose_pids() is not None:
            return None
        try:
            return os.stat(f"{self._root}/self/ns/pid").st_ino
        except OSError:
            return None

    def in_pid_namespace_of_its_own(self) -> bool:
        """Return whether the visible pids differ from those that the driver reports, as in most containers."""
        try:
            return os.readlink(f"{self._root}/self/ns/pid") != _FIRST_PID_NAMESPACE
        except OSError:
            return False

    def is_in_no_container(self, pid: int) -> bool:
        """Return whether a process certainly sees the files that we see, or the first process, by the same names.

        A service of systemd has often mounts of its own, so that all other processes see other files than it does.
        """
        try:
            its = os.stat(f"{self._root}/{pid}/ns/mnt")
            return any(os.path.samestat(its, os.stat(f"{self._root}/{each}/ns/mnt")) for each in ("self", 1))
        except OSError:
            return False

    def mount_points(self) -> tuple[str, ...] | Unknown:
        """Return where something is mounted, as this process sees it."""
        raw = read_whole(f"{self._root}/self/mountinfo")
        if raw is None:
            return Unknown(f"{self._root}/self/mountinfo cannot be read")
        return tuple(os.fsdecode(line.split()[4]) for line in raw.splitlines())

    def capabilities(self) -> int | Unknown:
        """Return the capabilities of this process, as bits by the kernel's numbers."""
        raw = read_start(f"{self._root}/self/status") or b""
        match = re.search(rb"^CapEff:\s*([0-9a-f]+)", raw, re.MULTILINE)
        return int(match[1], 16) if match else Unknown("/proc/self/status does not say")

    def kernel_setting(self, name: str) -> int | Unknown:
        """Return a number under /proc/sys, such as `fs/inotify/max_user_watches`."""
        raw = read_start(f"{self._root}/sys/{name}")
        return Unknown(f"this kernel has no {name}") if raw is None else int(raw.split()[0])

    def uptime_s(self) -> float | None:
        """Return seconds since boot, by the clock that births are counted in."""
        raw = read_start(f"{self._root}/uptime")
        return None if raw is None else float(raw.split()[0])

    def available_memory_bytes(self) -> int | Unknown:
        """Return how much host memory programs can still get without swapping."""
        raw = read_start(f"{self._root}/meminfo") or b""
        match = re.search(rb"^MemAvailable:\s*(\d+) kB", raw, re.MULTILINE)
        return int(match[1]) * 1024 if match else Unknown("/proc/meminfo does not say how much memory is available")

    def cpu_ticks(self) -> tuple[int, int] | Unknown:
        """Return busy and all ticks of all cores since boot."""
        raw = read_start(f"{self._root}/stat")
        if raw is None:
            return Unknown("/proc/stat cannot be read")
        user, nice, system, idle, iowait, *rest = map(int, raw.split(b"\n", 1)[0].split()[1:9])
        busy = user + nice + system + sum(rest)
        return busy, busy + idle + iowait
