"""Run a program on a machine where the disk of one folder knows no locks, as a network disk without a lock service.

`python -m tests.without_locks ERROR FOLDER COMMAND …`: the kernel asks this process at each call that locks a file
(seccomp(2), user notification). For files of that folder the answer is ERROR, as ENOLCK; all else is carried out.
"""

import ctypes
import errno
import os
import platform
import select
import signal
import socket
import struct
import sys

_CALLS = {"aarch64": (277, 25, 32), "x86_64": (317, 72, 73)}  # seccomp, fcntl, flock
_LOCKING = (5, 6, 7, 36, 37, 38)  # F_GETLK, F_SETLK, F_SETLKW, and the same of open file descriptions
_SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_NEW_LISTENER = 1, 8
_PR_SET_NO_NEW_PRIVS = 38
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ASK, _ALLOW = 0x7FC00000, 0x7FFF0000
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_NOTICE = struct.Struct("@QIIiIQ6Q")  # id, pid, flags, number of the call, architecture, where, arguments
_ANSWER = struct.Struct("@QqiI")  # id, value, error, flags
_CONTINUE = 1


def _filter(fcntl_number: int, flock_number: int) -> bytes:
    """The kernel's program: ask us about calls that lock, allow all others."""
    asks = len(_LOCKING)
    program = [
        (_LOAD, 0, 0, 0),
        (_JUMP_IF_EQUAL, asks + 3, 0, flock_number),
        (_JUMP_IF_EQUAL, 0, asks + 1, fcntl_number),
        (_LOAD, 0, 0, 24),
        *((_JUMP_IF_EQUAL, asks - at, 0, command) for at, command in enumerate(_LOCKING)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ASK),
    ]
    return b"".join(struct.pack("@HBBI", *each) for each in program)


def _be_asked_about() -> int:
    """Put this process and its children under the filter; return what the questions come from."""
    libc = ctypes.CDLL(None, use_errno=True)
    seccomp, fcntl_number, flock_number = _CALLS[platform.machine()]
    code = _filter(fcntl_number, flock_number)
    text = ctypes.create_string_buffer(code)
    program = ctypes.create_string_buffer(struct.pack("@HxxxxxxP", len(code) // 8, ctypes.addressof(text)))
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    fd = libc.syscall(seccomp, _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_NEW_LISTENER, program)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return int(fd)


def _answer_all(asked: int, folder: str, refusal: int) -> None:
    """Answer each question, until nobody is left who could ask."""
    libc = ctypes.CDLL(None, use_errno=True)
    poll = select.poll()
    poll.register(asked, select.POLLIN)
    while not any(event & select.POLLHUP for _, event in poll.poll()):
        notice = ctypes.create_string_buffer(_NOTICE.size)
        if libc.ioctl(asked, ctypes.c_ulong(_RECEIVE), notice):
            continue  # who asked was killed
        number, pid, _, _, _, _, fd, *_ = _NOTICE.unpack(notice.raw)
        try:
            path = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            path = ""
        refused = path.startswith(f"{folder}/")
        answer = _ANSWER.pack(number, 0, -refusal if refused else 0, 0 if refused else _CONTINUE)
        libc.ioctl(asked, ctypes.c_ulong(_SEND), ctypes.create_string_buffer(answer, len(answer)))


def main() -> int:
    """Run the command, and end as it ended."""
    refusal, folder, *words = sys.argv[1:]
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        asked = _be_asked_about()
        socket.send_fds(theirs, [b"x"], [asked])
        os.close(asked)
        os.execvp(words[0], words)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(child, number))
    _, (asked, *_), _, _ = socket.recv_fds(ours, 1, 1)
    _answer_all(asked, os.path.realpath(folder), getattr(errno, refusal))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
