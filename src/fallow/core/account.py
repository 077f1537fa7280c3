"""Whom a program runs as, and what it finds of the world there."""

from collections.abc import Mapping

from fallow.core.value import value

_KEPT = ("LANG", "LANGUAGE", "TZ")


@value
class Account:
    """A user whom processes can belong to, as the password database has it."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str

    def environ(self, ours: Mapping[str, str], path: str) -> dict[str, str]:
        """What a program of theirs finds: who they are and how they write. The rest of ours is not theirs to read."""
        kept = {name: text for name, text in ours.items() if name in _KEPT or name.startswith("LC_")}
        own = {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell, "PATH": path}
        return kept | own
