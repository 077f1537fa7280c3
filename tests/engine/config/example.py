"""The example that ships, as lines of which each key is known."""

import re

from fallow.core.errors import ConfigWrong
from fallow.core.mistake import Mistake
from fallow.core.value import value
from fallow.engine.config.load import understand
from tests.places import REPOSITORY

EXAMPLE = (REPOSITORY / "src" / "fallow" / "examples" / "fallow.toml").read_text()
LINES = EXAMPLE.splitlines()


@value
class KeyLine:
    """A line with a key in it; `header` is the line of its section. Both count from 0."""

    at: int
    header: int
    section: str
    key: str


def key_lines() -> list[KeyLine]:
    found: list[KeyLine] = []
    header, section = 0, ""
    for at, line in enumerate(LINES):
        if heading := re.match(r"\[+([a-z.]+)\]+", line):
            header, section = at, heading[1]
        elif pair := re.match(r'([a-z_A-Z]+|"[^"]*") = ', line):
            found.append(KeyLine(at, header, section, pair[1]))
    return found


def mistakes(text: str) -> tuple[Mistake, ...]:
    """What is wrong with a text; nothing, if it is a config."""
    try:
        understand(text, "fallow.toml")
    except ConfigWrong as error:
        return error.mistakes
    return ()
