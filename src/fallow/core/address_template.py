"""The address of each person, made from one template such as `mailto://{user}@example.org`.

Only a login name of a plain form fills a template. Where it stands in the address is the administrator's choice.
"""

import re
from urllib.parse import quote

from fallow.core.errors import WrongUsage
from fallow.core.value import value

_WAY = "write it as mailto://{user}@example.org"
_KNOWN = re.compile(r"\{(user|uid)\}")
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}", re.ASCII)
_SAMPLE = ("ada", 1000)


@value
class AddressTemplate:
    """A template that was checked."""

    text: str

    @property
    def scheme(self) -> str:
        """Return the scheme, which is no secret, as the rest may be."""
        return self.text.partition("://")[0]

    @property
    def sample(self) -> str:
        """Return the address of a person who need not exist, to check whether such an address can work."""
        return self.address(*_SAMPLE)

    def address(self, user: str, uid: int) -> str:
        """Return the address of a user whose name is plain."""
        if not is_plain(user):
            raise WrongUsage("a login name that is not plain makes no address")
        known = {"user": quote(user, safe=""), "uid": str(uid)}
        return _KNOWN.sub(lambda found: known[found[1]], self.text)


def is_plain(user: str) -> bool:
    """Return whether a login name has only ASCII letters, digits, `.`, `_` and `-`; digits alone may be a number."""
    return _PLAIN.fullmatch(user) is not None and not user.isdigit()


def parse_template(text: str) -> AddressTemplate:
    """Return the template that a person wrote. No complaint repeats it: it may contain a password."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*://\S+", text):
        raise WrongUsage("it is not an address for notices", _WAY)
    if re.search(r"[{}]", _KNOWN.sub("", text)):
        raise WrongUsage(
            "it has a placeholder other than {user} and {uid}", "write {user}; braces of a password are %7B and %7D"
        )
    if "{user}" not in text:
        raise WrongUsage("it has no {user}, so everybody's notices would go to one address", _WAY)
    return AddressTemplate(text)
