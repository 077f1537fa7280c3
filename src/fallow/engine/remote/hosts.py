"""Which hosts `--on` means: plain names, `gpu[1-4]`, and patterns such as `gpu*` among the hosts that are known.

Known are the names in FALLOW_HOSTS; without that variable those on the Host lines of the ssh config. A name can never
be an option of ssh, nor a part of a command.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from fallow.core.did_you_mean import did_you_mean
from fallow.core.errors import NothingFound, WrongUsage
from fallow.core.units import shortened
from fallow.engine.remote.ssh import config_of, ssh_words
from fallow.readers.accounts import home
from fallow.readers.ssh_config import names_in_config

MOST_HOSTS = 256
_LONGEST = 255
_NAME = r"(?:[A-Za-z0-9_][A-Za-z0-9_.+-]*@)?[A-Za-z0-9_:][A-Za-z0-9_.:%-]*"
_BRACKETS = r"\[([0-9]{1,6}(?:-[0-9]{1,6})?(?:,[0-9]{1,6}(?:-[0-9]{1,6})?)*)\]"


def hosts_meant(text: str, environ: Mapping[str, str]) -> list[str]:
    """Return the hosts in the order they are written, each once; raise WrongUsage or NothingFound."""
    found: dict[str, None] = {}
    known: list[str] | None = None
    for word in _words(text):
        for name in _expanded(word):
            if not {"*", "?"}.isdisjoint(name):
                known = known_hosts(environ) if known is None else known
                found |= dict.fromkeys(_matching(name, known))
            else:
                found[_checked(name)] = None
        if len(found) > MOST_HOSTS:
            raise WrongUsage(f"--on names more than {MOST_HOSTS} hosts", "name fewer")
    if not found:
        raise WrongUsage("--on names no host", "write it as --on gpu1,gpu2 or --on 'gpu*'")
    return list(found)


def known_hosts(environ: Mapping[str, str]) -> list[str]:
    """Return the hosts that patterns are matched with; names that could not be hosts are left out."""
    listed = environ.get("FALLOW_HOSTS")
    if listed is not None:
        names: Sequence[str] = listed.replace(",", " ").split()
    else:
        own = home(environ.get("HOME"))
        config = config_of(ssh_words(environ)) or (f"{own}/.ssh/config" if own else None)
        names = [] if config is None else names_in_config(config, own)
    return [name for name in dict.fromkeys(names) if is_host(name)]


def is_host(name: str) -> bool:
    """Return whether this can be the name of a host, and nothing else."""
    return len(name) <= _LONGEST and re.fullmatch(_NAME, name, re.ASCII) is not None


def _checked(name: str) -> str:
    if not is_host(name):
        raise WrongUsage(f"{shortened(name, 40)!r} is no name of a host", "write names as gpu1 or alice@gpu1")
    return name


def _matching(pattern: str, known: Sequence[str]) -> list[str]:
    if not is_host(pattern.replace("*", "x").replace("?", "x")):
        raise WrongUsage(f"{shortened(pattern, 40)!r} is no pattern of hosts", "write it as 'gpu*' or 'gpu[1-4]'")
    found = [name for name in known if fnmatchcase(name, pattern)]
    if found:
        return found
    if not known:
        raise NothingFound(
            f"{pattern!r} matches no host, because none is known",
            "name hosts in FALLOW_HOSTS, or behind Host in ~/.ssh/config",
        )
    plain = pattern.replace("*", "").replace("?", "")
    way = did_you_mean(plain, known) or f"known are {shortened(', '.join(known), 200)}"
    raise NothingFound(f"{pattern!r} matches none of the {len(known)} known hosts", way)


def _words(text: str) -> list[str]:
    """Return the words between commas; those within brackets belong to a word."""
    return [word.strip() for word in re.split(r",(?![^\[\]]*\])", text) if word.strip()]


def _expanded(word: str) -> Iterator[str]:
    """Yield gpu1 to gpu4 for gpu[1-4], and gpu01, gpu02 for gpu[01-02]; the word itself where it has no brackets."""
    match = re.search(_BRACKETS, word, re.ASCII)
    if match is None:
        yield word
        return
    for part in match[1].split(","):
        first, _, last = part.partition("-")
        last = last or first
        if not 0 <= int(last) - int(first) < MOST_HOSTS:
            raise WrongUsage(f"{part!r} in {shortened(word, 40)!r} is no range of hosts", "write it as gpu[1-4]")
        for number in range(int(first), int(last) + 1):
            yield from _expanded(f"{word[: match.start()]}{number:0{len(first)}d}{word[match.end() :]}")
