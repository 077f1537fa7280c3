"""The only file that starts programs."""

import errno
import os
import shutil
import signal
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from fallow.core.errors import CannotRun, CommandNotFound, FallowError
from fallow.core.shell_word import shell_word

OURSELVES = (sys.executable, "-P", "-m", "fallow")
"""The command for this fallow, whatever PATH and the current folder contain: this interpreter and its package."""
# Python ignores these two for itself; a program expects their defaults.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def find(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the file that the command names; called before a launch waits for GPUs.

    `fallow` is this one: a service may have no PATH that finds it, or one that finds another.
    """
    name, path = command[0], environ.get("PATH")
    beside_us = shutil.which(os.path.join(os.path.dirname(sys.executable), name)) if name == "fallow" else None
    found = beside_us or shutil.which(name, path=path)
    if found is not None:
        return found
    if os.sep in name and os.path.isdir(name):
        raise CannotRun(f"{name} is a folder")
    there = name if os.sep in name else shutil.which(name, mode=os.F_OK, path=path)
    if there is not None and os.path.exists(there):
        raise CannotRun(f"{there} is not executable; try: chmod +x {shell_word(there)}")
    way = (
        "see whether its path is right" if os.sep in name else "see whether its name is right, or name its whole path"
    )
    raise CommandNotFound(f"there is no command {name!r}", way)


def become(path: str | int, command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by the command, with exec(): same pid, terminal and descriptors.

    `path` may be a descriptor of the program, to run one that can no longer be found.
    """
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(path, list(command), dict(environ))
    except OSError as error:
        raise failure(path, error) from None


def start(
    path: str,
    command: Sequence[str],
    environ: Mapping[str, str],
    streams: Mapping[int, int] | None = None,
    *,
    blocked: Collection[int] = (),
    session: bool = False,
) -> int:
    """Start a program as our child; return its pid. `streams`: its first descriptors that are not ours, and which.

    `blocked`: signals that it has blocked. What we catch, it has at its default; what we were started with as
    ignored, it ignores. It stays in our process group: the shell and the terminal then treat it as they would without
    us, Ctrl-C and Ctrl-Z reach it from the terminal itself, and in a pipeline it remains in the foreground with its
    neighbours. `session`: it begins a session of its own instead, and gets no descriptor that is meant for a job.

    posix_spawn runs no Python between fork and exec, where a thread inside the driver could have left any lock held.
    """
    closed = _meant_for_a_job() if session else []
    actions: list[tuple[int, ...]] = [(os.POSIX_SPAWN_CLOSE, fd) for fd in closed]
    actions += [(os.POSIX_SPAWN_DUP2, ours, its) for its, ours in (streams or {}).items()]
    try:
        return os.posix_spawn(
            path,
            list(command),
            environ,
            file_actions=actions,
            setsid=session,
            setsigmask=blocked,
            setsigdef=_IGNORED_BY_PYTHON,
        )
    except OSError as error:
        raise failure(path, error) from None


def start_filler(command: Sequence[str], environ: Mapping[str, str], before: Callable[[], None]) -> int:
    """Start a filler, in its own session; return its pid. Only for a process without threads.

    `before` runs in the new process, which then looks for the program. If that fails, the error is raised here.
    """
    ours, its = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            before()
            path = find(command, environ)
            for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            become(path, command, environ)
        except (OSError, FallowError) as error:
            os.write(its, str(error).encode())
        finally:
            os._exit(CannotRun.exit_code)
    os.close(its)
    with os.fdopen(ours, "rb") as failures:
        sentence = failures.read().decode(errors="replace")
    if sentence:
        os.waitpid(pid, 0)
        raise CannotRun(sentence)
    return pid


def _meant_for_a_job() -> list[int]:
    """Return the descriptors, beyond the first three, that a program would inherit from us."""
    found = []
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # the one that listed the folder is closed by now
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
    return found


def failure(path: str | int, error: OSError) -> FallowError:
    """Return the error for a program that could not be started, in words."""
    if error.errno == errno.ENOEXEC:
        return CannotRun(f"{path} is no program; does it lack a #! line?")
    if error.errno == errno.ENOENT and os.path.exists(path):
        return CannotRun(f"{path} names an interpreter in its #! line that is not there")
    if error.errno == errno.ENOENT:
        return CommandNotFound(f"{path} is not there any more")
    return CannotRun(f"{path} cannot be run: {error.strerror}")
