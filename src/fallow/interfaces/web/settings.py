"""The settings of the page: its address, its host names, and who has which token."""

import hmac

from fallow.core.errors import WrongUsage
from fallow.core.value import value
from fallow.engine.config.listen_address import Address
from fallow.engine.config.persons import KnownPerson
from fallow.readers.secret import hashed


@value
class Visitor:
    """Who has shown a token: a person, or anybody who knows the token that people share."""

    person: KnownPerson | None = None


@value
class Settings:
    """How the page is set up."""

    address: Address
    token_hash: bytes | None = None
    """The hash of the token that people share."""
    hosts: tuple[str, ...] = ()
    persons: tuple[KnownPerson, ...] = ()

    @property
    def has_token(self) -> bool:
        """Return whether there is a token that somebody could show."""
        return self.token_hash is not None or bool(self.persons)

    def visitor(self, given: str) -> Visitor | None:
        """Return who shows this token; None if it is nobody's. The time taken reveals nothing about any token."""
        word, found = hashed(given), None
        for person in self.persons:
            if hmac.compare_digest(word, person.token_hash):
                found = Visitor(person)
        if self.token_hash is not None and hmac.compare_digest(word, self.token_hash):
            found = Visitor()
        return found

    @property
    def open_to_read(self) -> bool:
        """Return whether everybody who can reach the page may read it: nobody on another machine can.

        `hosts` names a proxy in front of the page, which answers other machines.
        """
        return self.address.is_loopback and not self.hosts


def checked(settings: Settings) -> Settings:
    """Return the settings; raise WrongUsage if other machines could reach a page without a token."""
    if not settings.open_to_read and not settings.has_token:
        what = f"{settings.address} can" if not settings.address.is_loopback else f"{settings.hosts[0]} may"
        raise WrongUsage(f"{what} be reached from other machines, and there is no token; set token_file in [page]")
    return settings


def said_at_start(settings: Settings) -> str:
    """Return the message that says where the page is, and who acts there as whom."""
    where = f"the page is at http://{settings.address}/"
    names = [person.account.name for person in settings.persons]
    roots = [name for name, person in zip(names, settings.persons, strict=True) if person.account.uid == 0]
    acting = f"; {', '.join(names)} can act there with a token of their own" if names else ""
    acting += ", which for root means as root" if roots else ""
    if settings.open_to_read:
        return f"{where}, for this machine only{acting}"
    return f"{where} and can be reached from other machines; it asks for the token{acting}"
