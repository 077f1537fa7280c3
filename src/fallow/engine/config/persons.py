"""`[[page.person]]`: people who act on the page as a user of this machine, each with a token of their own."""

import os
import shlex
from collections.abc import Iterator

from fallow.core.account import Account
from fallow.core.did_you_mean import did_you_mean
from fallow.core.errors import FallowError, WrongUsage
from fallow.core.value import value
from fallow.engine.config import types
from fallow.engine.config.base import Section
from fallow.readers.accounts import account, names
from fallow.readers.secret import hashed, read_token


class Person(Section):
    """A person who sees and acts on the page as a user of this machine."""

    user: types.Text
    """The user of this machine that the person is. One who shall be root is `"root"`, by that name."""
    token_file: types.Place
    """A file with the token of this person, in one word, that only root and the user who runs fallow can read."""


@value
class KnownPerson:
    """A person of the config: the user that they are, and the hash of their token."""

    account: Account
    token_hash: bytes


@value
class PersonFault:
    """What is wrong with a person: their position, the key to change, the sentence, and what to do."""

    number: int
    key: str
    sentence: str
    way: str


def known_persons(persons: tuple[Person, ...], shared: bytes | None) -> tuple[KnownPerson, ...]:
    """Return the persons; raise WrongUsage for the first thing that is wrong. `shared`: the page's token."""
    found = []
    for each in judged(persons, shared):
        if isinstance(each, PersonFault):
            raise WrongUsage(f"page.person[{each.number + 1}].{each.key}: {each.sentence}", each.way)
        found.append(each)
    return tuple(found)


def judged(persons: tuple[Person, ...], shared: bytes | None) -> Iterator[KnownPerson | PersonFault]:
    """Yield each person, or all that is wrong with them. A token that two have is nobody's."""
    before: dict[bytes, int] = {}
    for number, person in enumerate(persons):
        who = _account(person.user)
        token = _hash_in(person.token_file)
        if isinstance(who, FallowError):
            yield PersonFault(number, "user", who.sentence, who.way)
        if isinstance(token, FallowError):
            yield PersonFault(number, "token_file", token.sentence, token.way)
        elif token == shared:
            yield PersonFault(number, "token_file", "it holds the token of the page, which is no person's", _OTHER)
        elif before.setdefault(token, number) != number:
            sentence = f"it holds the token of page.person[{before[token] + 1}] too"
            yield PersonFault(number, "token_file", sentence, _OTHER)
        elif not isinstance(who, FallowError):
            yield KnownPerson(who, token)


def shared_token(path: str | None) -> bytes | None:
    """Return the hash of the token of the page; None if there is none, or it is yet to be made."""
    if path is None:
        return None
    try:
        return hashed(read_token(path))
    except (FileNotFoundError, FallowError):
        return None


_OTHER = "make another token"


def _account(user: str) -> Account | FallowError:
    found, me = account(user), os.geteuid()
    if found is None:
        return WrongUsage(f"there is no user {user!r} on this machine", did_you_mean(user, names()))
    if found.uid == 0 and user != "root":
        return WrongUsage(f"{user!r} is root", 'write user = "root" if this person shall be root')
    if me not in (0, found.uid):
        return WrongUsage(f"only a daemon of root can act as {user}", "let root run fallow up, or leave it out")
    return found


def _hash_in(path: str) -> bytes | FallowError:
    """Return the hash of the token in a file, or what is wrong with it."""
    try:
        return hashed(read_token(path))
    except FileNotFoundError:
        made = f"(umask 077; head -c 24 /dev/urandom | base64 > {shlex.quote(path)})"
        return WrongUsage(f"there is no file {path} with a token", f"make one: {made}")
    except FallowError as error:
        return error
