"""Jobs for the hands to supervise and to end. Each says what happens to it on the descriptor REPORT_FD.

All inherit that descriptor, so its other end sees the end of file when the last of them is gone. Whatever a test
does, none lives longer than LIFETIME_S.
"""

import os
import signal
import sys
import time

LIFETIME_S = 60
REPORT = int(os.environ["REPORT_FD"])


def say(text: str) -> None:
    os.write(REPORT, f"{text}\n".encode())


def live() -> None:
    """Do nothing, for as long as may be."""
    signal.alarm(LIFETIME_S)  # children do not inherit it: each that lives sets its own
    while True:
        signal.pause()


def ignores_term() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say("ready")
    live()


def ends_on_term() -> None:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(3))
    say("ready")
    live()


def stopped_child() -> None:
    """Ready when its child has stopped."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(3))
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
        live()
    os.waitpid(child, os.WUNTRACED)
    say("ready")
    live()


def first_thread_ended() -> None:
    """To /proc a zombie, and yet it lives."""
    import ctypes
    import threading

    exit_thread = {"x86_64": 60, "aarch64": 93}[os.uname().machine]
    threading.Thread(target=lambda: (_wait_for_zombie(), say("ready"), time.sleep(LIFETIME_S))).start()
    ctypes.CDLL(None).syscall(exit_thread, 0)


def _wait_for_zombie() -> None:
    while True:
        with open("/proc/self/stat") as file:
            if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                return


def five_deep() -> None:
    """Each process of the chain is in a session of its own and ignores SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _ in range(5):
        if os.fork() > 0:
            live()
        os.setsid()
    say("ready")
    live()


def double_fork() -> None:
    """A daemon as the books have it: its parents are gone, its session is new."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            say("ready")
            live()
        os._exit(0)
    os.wait()
    live()


def orphan_of_an_ended_job() -> None:
    """The first process ends well and leaves a daemon behind, which waits for that end before it speaks."""
    ends_with_parent, kept_by_parent = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.close(kept_by_parent)
        os.read(ends_with_parent, 1)
        say("ready")
        live()


def starts_anew() -> None:
    """Whenever its child dies it starts another."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.alarm(LIFETIME_S)
    said = False
    while True:
        if os.fork() == 0:
            live()
        if not said:
            say("ready")
            said = True
        os.wait()


def tells_signals() -> None:
    """Says the name of each signal that it gets; SIGUSR2 ends it."""
    watched = {signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
    watched |= {signal.SIGWINCH, signal.SIGRTMIN}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    ignored = [number for number in watched if signal.getsignal(number) is signal.SIG_IGN]
    signal.alarm(LIFETIME_S)
    say(f"ready {os.getpid()} blocked={sorted(map(int, blocked))} ignored={sorted(map(int, ignored))}")
    while True:
        number = signal.sigwait(watched)
        if number == signal.SIGUSR2:
            break
        say(signal.Signals(number).name)


def tells_continues() -> None:
    """Stops as any program does, and says when it goes on."""
    watched = {signal.SIGCONT, signal.SIGINT, signal.SIGRTMIN}
    signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    signal.alarm(LIFETIME_S)
    say("ready")
    while True:
        say(signal.Signals(signal.sigwait(watched)).name)


def signals_its_parent() -> None:
    """What a job sends to its parent is not for itself."""
    got = []
    signal.signal(signal.SIGUSR1, lambda *_: got.append("SIGUSR1"))
    signal.signal(signal.SIGUSR2, lambda *_: got.append("SIGUSR2"))  # a wrapper fetches it after SIGUSR1
    os.kill(os.getppid(), signal.SIGUSR1)
    say("ready")
    while "SIGUSR2" not in got:
        signal.pause()
    say(" ".join(got))


def group_dies_of_int() -> None:
    """As after Ctrl-C: the whole group gets SIGINT, and it does not catch it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    say("ready")
    os.killpg(0, signal.SIGINT)
    live()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
