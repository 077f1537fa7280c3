"""The machine that a command works on: a clock, an environment, a GPU reader, the claim folder."""

import os
from collections.abc import Mapping
from functools import cached_property

from fallow.actuators.claims.folder import ClaimFolder, folder_path
from fallow.core.errors import FallowError, NoDriver
from fallow.core.ports import Clock, GpuReader
from fallow.core.units import patience_s
from fallow.engine.machine.clock import SystemClock
from fallow.readers.accounts import home, user_name
from fallow.readers.proc import Proc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from fallow.actuators.claims.protections import ProtectionFolder
    from fallow.core.visibility import Viewer
    from fallow.engine.client.daemon_client import DaemonClient
    from fallow.readers.terminals import Terminals

_DRIVER_LIMIT_S = 2.0


class World:
    """This machine. The GPU reader and the claim folder are opened when they are first needed."""

    def __init__(
        self, environ: Mapping[str, str], *, simulate: str | None = None, clock: Clock | None = None
    ) -> None:
        """`simulate` names a machine such as `8xH100`; None leaves it to FALLOW_SIMULATE."""
        # Processes that are started from here get the same simulated machine through their environment.
        self.environ = environ if simulate is None else {**environ, "FALLOW_SIMULATE": simulate}
        self.proc = Proc()
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.simulated = self.environ.get("FALLOW_SIMULATE") or None
        """The simulated machine that was asked for, as it was written; None if the GPUs are real."""
        if self.simulated is not None:
            self.environ = _on_own_machine(self.environ)

    @cached_property
    def gpu_reader(self) -> GpuReader:
        """Return the reader of the driver, or of simulated GPUs if those were asked for."""
        return self._open_reader(None)

    def go_on_without_driver(self, tell: "Callable[[NoDriver], None]") -> None:
        """Have no GPUs until there is a driver, instead of an error, which is passed to `tell`."""
        self.gpu_reader = self._open_reader(tell)

    def _open_reader(self, instead: "Callable[[NoDriver], None] | None") -> GpuReader:
        if self.simulated is not None:
            from fallow.readers.simulated_reader import SimulatedReader

            return SimulatedReader(os.uname().nodename, self.clock, self.proc, self.environ)
        from fallow.readers.nvml_reader import NvmlReader

        limit_s = patience_s(self.environ, "FALLOW_DRIVER_TIMEOUT", _DRIVER_LIMIT_S, "the driver")
        reader = NvmlReader(os.uname().nodename, self.clock, self.proc, limit_s)
        try:
            reader.open()
        except NoDriver as error:
            if instead is None:
                raise _or_simulate(error) from None
            instead(error)
        return reader

    @cached_property
    def folder(self) -> ClaimFolder:
        """Return the folder with the claims of all users."""
        return ClaimFolder(folder_path(self.environ))

    @cached_property
    def protections(self) -> "ProtectionFolder":
        """Return the folder of protections, which is in the claim folder, since all users share it too."""
        from fallow.actuators.claims.protections import ProtectionFolder

        return ProtectionFolder(self.folder, user_name, self.proc)

    def daemon(self, say: "Callable[[str], None]") -> "DaemonClient":
        """Return a client of the daemon; `say` gets the reason if the daemon does not answer."""
        from fallow.engine.client.daemon_client import DaemonClient

        return DaemonClient(self.environ, self.clock, self.simulated, say)

    def close(self) -> None:
        """Close what was opened."""
        if "gpu_reader" in self.__dict__:
            self.gpu_reader.close()
        if "folder" in self.__dict__:
            self.folder.close()

    @property
    def state_folder(self) -> str:
        """Return the folder of journal, history and stacks; raise FallowError if there is none.

        What happened on simulated GPUs is kept below it, in a folder of its own: no report of real ones adds it up.
        """
        folder = _state_folder(self.environ)
        return folder if self.simulated is None else os.path.join(folder, "simulated")

    @property
    def user(self) -> str:
        """Return the name of the user that fallow runs as."""
        return user_name(os.geteuid())

    @property
    def viewer(self) -> "Viewer":
        """Return what our user may read of others' command lines: root all, others only program names."""
        from fallow.core.visibility import Viewer

        return Viewer(self.user, everything=os.geteuid() == 0)

    def terminals(self) -> "Terminals":
        """Return the reader of people at terminals; the terminals are in FALLOW_TERMINALS, else in /dev."""
        from fallow.readers.terminals import Terminals

        return Terminals(self.clock, devices=self.environ.get("FALLOW_TERMINALS") or "/dev")

    @property
    def device_folder(self) -> str:
        """Return the folder of the GPUs' device nodes: FALLOW_DEVICES, else /dev."""
        return self.environ.get("FALLOW_DEVICES") or "/dev"

    @property
    def visible_devices(self) -> str | None:
        """Return our CUDA_VISIBLE_DEVICES: fallow only uses GPUs that it allows."""
        return self.environ.get("CUDA_VISIBLE_DEVICES")

    def chance(self) -> int:
        """Return a random number."""
        return int.from_bytes(os.urandom(4), "little")


def _or_simulate(error: NoDriver) -> NoDriver:
    return NoDriver(str(error), "to try fallow without a GPU, add --simulate or set FALLOW_SIMULATE=8xH100")


def _state_folder(environ: Mapping[str, str]) -> str:
    """Return FALLOW_STATE_DIR, else as root /var/lib/fallow, else a folder in the home of the user."""
    named, base = environ.get("FALLOW_STATE_DIR"), environ.get("XDG_STATE_HOME", "")
    if named:
        return os.path.abspath(named)
    if os.geteuid() == 0:
        return "/var/lib/fallow"  # whatever HOME is: sudo -E keeps that of its caller
    if base.startswith("/"):
        return f"{base}/fallow"
    own = home(environ.get("HOME", ""))
    if own is None:
        from fallow.actuators.files.own_folder import NAME_ANOTHER_STATE

        sentence = f"there is nowhere to keep a journal: HOME is not set, and user {os.geteuid()} has no home"
        raise FallowError(sentence, NAME_ANOTHER_STATE)
    return f"{own.rstrip('/')}/.local/state/fallow"


def _on_own_machine(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment with what it does not name of a simulated machine: this user's own."""
    from fallow.actuators.files.own_folder import own_folder
    from fallow.readers.simulated_reader import own_machine

    own = {name: path for name, path in own_machine(os.geteuid()).items() if not environ.get(name)}
    if own:
        own_folder(os.path.dirname(next(iter(own.values()))), f"name other places in {' and '.join(own)}")
    return {**environ, **own}
