"""A shell with job control, as small as can be: one job in the foreground of a terminal.

small_shell.py TERMINAL CMD...   TERMINAL is a descriptor. Says on REPORT_FD when the job stops and how it ended.
A line `fg` on CONTROL_FD continues it in the foreground; any other line lets the shell wait on.
"""

import os
import signal
import sys

REPORT = int(os.environ["REPORT_FD"])
CONTROL = int(os.environ["CONTROL_FD"])


def say(text: str) -> None:
    os.write(REPORT, f"shell: {text}\n".encode())


def main(terminal: int, command: list[str]) -> None:
    os.login_tty(terminal)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # or it could not take the terminal back
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execv(command[0], command)
    say(f"started {pid}")
    while True:
        _, status = os.waitpid(pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            break
        os.tcsetpgrp(0, os.getpgrp())
        say(f"stopped {signal.Signals(os.WSTOPSIG(status)).name}")
        if os.read(CONTROL, 100) == b"fg\n":
            os.tcsetpgrp(0, pid)
            os.killpg(pid, signal.SIGCONT)
    say(f"ended {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
