"""The user that a program runs as, and its environment."""

from collections.abc import Mapping

from fallow.core.value import value

_KEPT = ("LANG", "LANGUAGE", "TZ")


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
