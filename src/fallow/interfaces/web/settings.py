"""The settings of the page: its address, its host names and its token."""

from fallow.core.errors import WrongUsage
from fallow.core.value import value
from fallow.engine.config.listen_address import Address


@value
class Settings:
    """How the page is set up."""

    address: Address
    token: str | None = None
    hosts: tuple[str, ...] = ()

    @property
    def open_to_read(self) -> bool:
        """Return whether everybody who can reach the page may read it."""
        return self.address.is_loopback


def checked(settings: Settings) -> Settings:
    """Return the settings; raise WrongUsage if other machines could reach a page without a token."""
    if not settings.address.is_loopback and not settings.token:
        raise WrongUsage(
            f"{settings.address} can be reached from other machines, and there is no token; set token_file in [page]"
        )
    return settings


def said_at_start(settings: Settings) -> str:
    """Return the message that says where the page is."""
    if settings.open_to_read:
        return f"the page is at http://{settings.address}/, for this machine only"
    return f"the page is at http://{settings.address}/ and can be reached from other machines; it asks for the token"
