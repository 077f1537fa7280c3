"""The error that a parser of config values raises: what is wrong, and what to write instead, as two values."""


class Complaint(ValueError):
    """A ValueError, so that pydantic collects it, which names what is wrong and what would be right separately."""

    def __init__(self, sentence: str, way: str = "") -> None:
        super().__init__(f"{sentence}; {way}" if way else sentence)
        self.sentence = sentence
        self.way = way
