"""Read which users the machine has."""

from pwd import getpwall, getpwnam


def is_user(name: str) -> bool:
    """Return whether the machine has a user of that name."""
    try:
        getpwnam(name)
    except (KeyError, ValueError):
        return False
    return True


def user_names() -> list[str]:
    """Return the users that the machine lists; those of a directory service may be missing."""
    return [entry.pw_name for entry in getpwall()]
