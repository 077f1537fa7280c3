"""The command line of the user's own ssh, for one host and one command of the fallow there."""

import shlex
from collections.abc import Mapping, Sequence

from fallow.core.errors import WrongUsage
from fallow.core.value import value

_FALLOW = "fallow"
_CONNECT_S = 10
_SSH = "ssh"
_OWN_FOLDER = "~/"


@value
class Ssh:
    """How other hosts are reached."""

    words: tuple[str, ...]
    """FALLOW_SSH: the program and its options."""
    fallow: str
    """Where fallow is on the other hosts."""

    def command(self, host: str, words: Sequence[str], *, terminal: bool = False) -> list[str]:
        """Return the words that run fallow with these words on a host; nothing asks for a password.

        A remote shell reads the last one, so each word in it is quoted. It becomes fallow, so that fallow notices
        when the connection ends.
        """
        return [
            *self.words,
            *("-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_S}"),
            "-t" if terminal else "-T",
            "--",
            host,
            f"exec {_program(self.fallow)} {shlex.join(words)}",
        ]


def ssh_for(environ: Mapping[str, str]) -> Ssh:
    """Return how to reach other hosts, by the environment."""
    return Ssh(tuple(ssh_words(environ)), environ.get("FALLOW_REMOTE") or _FALLOW)


def ssh_words(environ: Mapping[str, str]) -> list[str]:
    """Return FALLOW_SSH as words, or plain ssh."""
    try:
        return shlex.split(environ.get("FALLOW_SSH") or _SSH) or [_SSH]
    except ValueError as error:
        raise WrongUsage(f"FALLOW_SSH cannot be read: {error}", "write it as: ssh -F FILE") from None


def config_of(words: Sequence[str]) -> str | None:
    """Return the config that these words name with -F."""
    for at, word in enumerate(words[1:], 1):
        if word == "-F":
            return words[at + 1] if at + 1 < len(words) else None
        if word.startswith("-F"):
            return word[2:]
    return None


def _program(path: str) -> str:
    """Return the path quoted for a shell, which may still replace ~ by the home there."""
    return f"{_OWN_FOLDER}{shlex.quote(path[2:])}" if path.startswith(_OWN_FOLDER) else shlex.quote(path)
