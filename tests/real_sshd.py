"""Real sshd's on loopback, each a host with simulated GPUs of its own, and a client config that names them."""

import os
import pathlib
import shutil
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress

from tests.places import BIN, LIMIT_S
from tests.waiting import end_group, until

PROGRAMS = ("/usr/sbin/sshd", "ssh", "ssh-keygen")


def missing() -> str | None:
    """Return which program of OpenSSH is not installed, or why it cannot be used here."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} of OpenSSH is not installed (scripts/engines sshd)"
    return None if os.geteuid() == 0 else "an sshd of the tests needs root"


def can_connect(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Hosts:
    """Hosts by name, each with an sshd of its own, one simulated machine and one folder of claims."""

    def __init__(self, home: pathlib.Path) -> None:
        self.home = home
        home.mkdir()
        home.chmod(0o755)
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)  # where sshd separates its privileges
        self.config = home / "ssh_config"
        self._key("user")
        shutil.copy(home / "user.pub", home / "authorized_keys")
        self._processes: list[subprocess.Popen[bytes]] = []
        self._silent: list[socket.socket] = []
        self.config.write_text(
            f"""Host *
  User root
  HostName 127.0.0.1
  IdentityFile {home}/user
  IdentitiesOnly yes
  UserKnownHostsFile {home}/known_hosts
  StrictHostKeyChecking no
  LogLevel ERROR
"""
        )

    @property
    def environ(self) -> dict[str, str]:
        """What a user of these hosts has in the environment."""
        return {"FALLOW_SSH": f"ssh -F {self.config}"}

    def add(self, name: str, machine: str, variables: Mapping[str, str] | None = None) -> pathlib.Path:
        """Start a host with a simulated machine; return its folder."""
        folder = self.home / name
        folder.mkdir()
        (folder / "terminals" / "pts").mkdir(parents=True)
        given = {
            "PATH": f"{BIN}:/usr/bin:/bin",
            "FALLOW_SIMULATE": machine,
            "FALLOW_CLAIM_DIR": f"{folder}/claims",
            "FALLOW_STATE_DIR": f"{folder}/state",
            "FALLOW_SOCKET": f"{folder}/fallow.sock",
            "FALLOW_TERMINALS": f"{folder}/terminals",
            **(variables or {}),
        }
        self._key(f"{name}/host")
        port = self._listen(folder, given)
        self._name(name, port)
        return folder

    def add_silent(self, name: str) -> None:
        """Add a host that accepts connections and says nothing."""
        listening = socket.create_server(("127.0.0.1", 0))
        self._silent.append(listening)
        self._name(name, listening.getsockname()[1])

    def add_refusing(self, name: str) -> None:
        """Add a host on which nobody listens."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        self._name(name, port)

    def close(self) -> None:
        """End all of them, with the connections that they serve."""
        for process in self._processes:
            end_group(process)
        for each in self._silent:
            each.close()

    def _name(self, name: str, port: int) -> None:
        with self.config.open("a") as file:
            file.write(f"Host {name}\n  Port {port}\n")

    def _key(self, name: str) -> None:
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.home / name)]
        subprocess.run(words, check=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)

    def _listen(self, folder: pathlib.Path, variables: Mapping[str, str]) -> int:
        """Start an sshd on a free port. Another program may take the port before it does: then another one."""
        while True:
            with socket.create_server(("127.0.0.1", 0)) as taken:
                port: int = taken.getsockname()[1]
            (folder / "sshd_config").write_text(
                f"""Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
PidFile none
AuthorizedKeysFile {self.home}/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
MaxStartups 1000
MaxSessions 1000
PrintMotd no
SetEnv {" ".join(f"{name}={text}" for name, text in variables.items())}
"""
            )
            with (folder / "log").open("wb") as log:
                process = subprocess.Popen(
                    ["nice", "-n", "10", "/usr/sbin/sshd", "-D", "-e", "-f", str(folder / "sshd_config")],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    start_new_session=True,
                )
            self._processes.append(process)
            if until(lambda p=process, at=port: p.poll() is not None or can_connect(at)) and process.poll() is None:  # type: ignore[misc]
                return port
