"""The user that a program runs as, and its environment."""

from collections.abc import Mapping

from fallow.core.value import value

USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KEPT = ("LANG", "LANGUAGE", "TZ")
_OF_A_LAUNCH = ("FALLOW_CLAIM", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


@value
class Account:
    """A user, as the password database has it."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str

    def environ(self, ours: Mapping[str, str], path: str) -> dict[str, str]:
        """Return the environment of the user's programs: who they are, and the language; nothing else of ours."""
        kept = {name: text for name, text in ours.items() if name in _KEPT or name.startswith("LC_")}
        own = {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell, "PATH": path}
        return kept | own


@value
class RunAs:
    """The user and environment with which root runs a command of the config."""

    account: Account | None
    """The user to become; None if that is root."""
    environ: dict[str, str]


def without_gpus(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables that give GPUs to a job, for a process that needs none."""
    return {name: text for name, text in environ.items() if name not in _OF_A_LAUNCH}
