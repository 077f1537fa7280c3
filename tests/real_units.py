"""A real service manager of the one who runs the tests, `systemd --user`, and services that it starts again.

Where systemd runs the machine, it is that machine's own. Elsewhere root starts one, which sees a /run of its own and
runs its services in the cgroups that systemd would give it.
"""

import fcntl
import os
import pathlib
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import BinaryIO

import pytest

from tests.places import LIMIT_S
from tests.waiting import end_group, until

START = """
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/user/{uid}
chmod 700 /run/user/{uid}
for root in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
    [ -e $root/cgroup.procs ] || continue
    mkdir -p $root/{cgroup}/init.scope
    echo $$ > $root/{cgroup}/init.scope/cgroup.procs
done
exec systemd --user --log-target=console
"""


class Units:
    """Services of a user, each with Restart=always."""

    def __init__(self, home: pathlib.Path, environ: Mapping[str, str]) -> None:
        uid = os.getuid()
        self.environ = {**environ, "XDG_RUNTIME_DIR": f"/run/user/{uid}", "HOME": str(home)}
        self.words: list[str] = []
        """What goes before a command, to run it where this manager is."""
        self._started: list[str] = []
        self._manager: subprocess.Popen[bytes] | None = None
        self._alone = None
        if not os.path.exists("/run/systemd/system"):
            self._start_a_manager(home, uid)
        until(lambda: self._systemctl("list-units").returncode == 0, pause_s=0.1)

    def _start_a_manager(self, home: pathlib.Path, uid: int) -> None:
        if uid != 0 or not shutil.which("systemd") or not shutil.which("systemd-run"):
            pytest.skip("a service manager needs root, and systemd installed")
        # Two managers would share the cgroups of one user.
        self._alone = open("/tmp/fallow-tests-service-manager", "ab")  # noqa: SIM115  open as long as this lives
        until(partial(_locked, self._alone), pause_s=0.1)
        script = START.format(uid=uid, cgroup=f"user.slice/user-{uid}.slice/user@{uid}.service")
        self.log = home / "systemd.log"
        with self.log.open("wb") as log:
            self._manager = subprocess.Popen(
                ["unshare", "--mount", "/bin/sh", "-c", script],
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.words = ["nsenter", "--mount", f"--target={self._manager.pid}", f"--wdns={home}", "--"]

    def run(self, name: str, variables: Mapping[str, str]) -> int:
        """Start a service that sleeps, with these variables; return its pid."""
        given = [f"--setenv={each}={text}" for each, text in variables.items()]
        words = ["systemd-run", "--user", f"--unit={name}", "--property=Restart=always", *given, "sleep", "100000"]
        ran = subprocess.run(
            [*self.words, *words], env=self.environ, capture_output=True, timeout=LIMIT_S, check=False
        )
        assert ran.returncode == 0, ran.stderr
        self._started.append(name)
        return until(lambda: self.pid_of(name))

    def pid_of(self, name: str) -> int:
        """Return the process of a service now; 0 if it does not run."""
        return int(self._systemctl("show", "--property=MainPID", "--value", name).stdout or 0)

    def close(self) -> None:
        """Stop the services, and the manager if it is ours."""
        for name in self._started:
            self._systemctl("stop", name)
        if self._manager is not None:
            self._manager.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._manager.wait(LIMIT_S)
            end_group(self._manager)
        if self._alone is not None:
            self._alone.close()

    def _systemctl(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self.words, "systemctl", "--user", "--no-pager", *words],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )


def _locked(file: BinaryIO) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
