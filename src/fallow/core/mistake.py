"""One mistake in a config file: where it is, what is wrong, and what was probably meant."""

from fallow.core.value import value


@value
class Mistake:
    """`where` is a path such as `filler[2].idle_for`, counted from 1, as the line is."""

    sentence: str
    where: str = ""
    line: int | None = None
    suggestion: str = ""

    def in_file(self, file: str) -> str:
        """Return `FILE:LINE: path: sentence (suggestion)`, as compilers write it and editors read it."""
        place = file if self.line is None else f"{file}:{self.line}"
        words = [place, self.where, self.sentence] if self.where else [place, self.sentence]
        return ": ".join(words) + (f" ({self.suggestion})" if self.suggestion else "")
