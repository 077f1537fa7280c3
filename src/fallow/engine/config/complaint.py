"""What is wrong with a value of the config, and what to write instead: two values, not a sentence to take apart."""


class Complaint(ValueError):
    """A ValueError is what pydantic collects; this one says apart what would be right."""

    def __init__(self, sentence: str, way: str = "") -> None:
        super().__init__(f"{sentence}; {way}" if way else sentence)
        self.sentence = sentence
        self.way = way
