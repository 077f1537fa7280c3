"""Write a path as one word of a shell, for the commands in sentences that people paste."""


def shell_word(path: str) -> str:
    """Return the path as a shell takes it for one word."""
    from shlex import quote  # noqa: PLC0415  loaded only where something is wrong

    return quote(path)
