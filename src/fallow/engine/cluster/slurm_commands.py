"""Run Slurm's commands: each by its full path, in a clean environment, in English, with limits on time and output."""

from collections.abc import Mapping
from typing import NoReturn

from fallow.actuators.process import programs, spawn
from fallow.actuators.process.programs import Ran
from fallow.core.errors import FallowError, PartMissing
from fallow.core.unknown import Unknown

_ANSWERS_WITHIN_S = 30.0
_MOST_BYTES = 1 << 28
_PLACES = "/usr/bin:/usr/local/bin:/opt/slurm/bin:/usr/local/slurm/bin"
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "HOME", "USER", "LOGNAME", "LD_LIBRARY_PATH")
_REFUSALS = (b"Access/permission denied", b"Invalid user id", b"Operation not permitted")


class SlurmCommands:
    """Runs scontrol, squeue and scancel. Users' variables, such as SQUEUE_FORMAT, reach none of them."""

    def __init__(self, environ: Mapping[str, str], conf: str = "") -> None:
        """`conf` is the slurm.conf that the config names; without it that of SLURM_CONF, or Slurm's own place."""
        kept = {name: environ[name] for name in _KEPT if name in environ}
        path = f"{environ['PATH']}:{_PLACES}" if environ.get("PATH") else _PLACES
        # Slurm's usual format of times names no time zone.
        self._environ = {**kept, "PATH": path, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
        if conf:
            self._environ["SLURM_CONF"] = conf
        self._paths: dict[str, str] = {}

    def demand(self, *names: str) -> None:
        """Raise PartMissing if one of the commands is not there."""
        for name in names:
            try:
                self._find(name)
            except FallowError:
                _refuse(name)

    def ask(self, name: str, *words: str) -> Ran | Unknown:
        """Run a command to its end; Unknown if it did not answer in time, or not at all."""
        try:
            path = self._find(name)
        except FallowError as error:
            return Unknown(str(error))
        return programs.ask([path, *words], self._environ, _ANSWERS_WITHIN_S, _MOST_BYTES)

    def text(self, name: str, *words: str) -> str | Unknown:
        """Return what a command prints; Unknown if it failed, with what it said."""
        answer = self.ask(name, *words)
        if isinstance(answer, Unknown):
            return answer
        if not answer.ok:
            return Unknown(answer.failure)
        return answer.text

    def _find(self, name: str) -> str:
        if name not in self._paths:
            self._paths[name] = spawn.find([name], self._environ)
        return self._paths[name]


def is_refusal(answer: Ran) -> bool:
    """Return whether Slurm refused for want of rights. It says so only in its own words."""
    said = answer.errors
    return any(each in said for each in _REFUSALS)


def _refuse(name: str) -> NoReturn:
    raise PartMissing(
        f"there is no command {name!r}", "install Slurm's commands, or add their folder to fallow's PATH"
    )
