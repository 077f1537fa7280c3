"""Report to systemd, as sd_notify(3): a datagram to the socket that NOTIFY_SOCKET names.

It is one line of text, so no library is needed. Without NOTIFY_SOCKET nothing is sent. This never waits for a
manager that does not take a datagram.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

_MICROSECONDS = 1_000_000


class ServiceManager:
    """systemd, or another manager with the same protocol."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.watchdog_s = _watchdog_s(environ)
        """How often it expects a report that we are alive; None if it does not."""
        self._status = ""
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address  # @ stands for an abstract one
        self._socket: socket.socket | None = None
        if address.startswith(("/", "@")):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def ready(self, status: str) -> None:
        """Report that the daemon is ready, also after a reload."""
        self._send("READY=1", f"STATUS={status}")
        self._status = status

    def status(self, status: str) -> None:
        """Send one line for `systemctl status`; the same line is not sent twice."""
        if status != self._status:
            self._status = status
            self._send(f"STATUS={status}")

    def reloading(self, monotonic_s: float) -> None:
        """Report that a reload begins; ready() ends it."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={round(monotonic_s * _MICROSECONDS)}")

    def stopping(self) -> None:
        """Report that the daemon is stopping."""
        self._send("STOPPING=1", "STATUS=ending")

    def alive(self) -> None:
        """Report that the loop is alive."""
        self._send("WATCHDOG=1")

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()

    def _send(self, *lines: str) -> None:
        if self._socket is not None:
            text = "\n".join(line.replace("\n", " ") for line in lines)
            with suppress(OSError):
                self._socket.sendto(text.encode(errors="replace"), self._address)


def _watchdog_s(environ: Mapping[str, str]) -> float | None:
    """Return WATCHDOG_USEC in seconds; None if it is missing or meant for another process."""
    try:
        pid = int(environ.get("WATCHDOG_PID", os.getpid()))
        seconds = int(environ.get("WATCHDOG_USEC", 0)) / _MICROSECONDS
    except ValueError:
        return None
    return seconds if seconds > 0 and pid == os.getpid() else None
