"""What the threads beside the screen of `fallow top` tell it."""

from collections.abc import Sequence
from queue import SimpleQueue

from textual.message import Message

from fallow.interfaces.top.look import Look


class Looked(Message):
    """A look was taken."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.look = look


class LookFailed(Message):
    """No look could be taken."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self.why = why


class Answered(Message):
    """A question was answered: the title and the lines, and whether the last ones matter most."""

    def __init__(self, title: str, lines: Sequence[str], *, from_last: bool) -> None:
        super().__init__()
        self.title, self.lines, self.from_last = title, lines, from_last


class Said(Message):
    """What an action does, or what came of it."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words = words


class Asked(Message):
    """A stop is planned, and waits for a person's answer."""

    def __init__(self, plan: Sequence[str], count: int, answer: "SimpleQueue[bool]") -> None:
        super().__init__()
        self.plan, self.count, self.answer = plan, count, answer
