"""What the keys of `fallow top` do: the same as the commands of that name. The command line brings it."""

from collections.abc import Callable, Sequence
from typing import Protocol

Agreed = Callable[[Sequence[str], int], bool]
"""Is shown the plan, which stops so many jobs, and returns whether a person agrees."""


class Commands(Protocol):
    """Each call may take long, and is made beside the screen. FallowError says why it cannot be done."""

    def why(self, subject: str | None) -> list[str]:
        """Return what `fallow why` prints; None is the last decision."""

    def waste(self, for_s: float) -> list[str]:
        """Return who left GPUs idle in the last so many seconds, the most hours first."""

    def protect(self, subjects: Sequence[str], for_s: float, why: str) -> list[str]:
        """Protect each subject as `fallow protect` does, and return what is protected."""

    def release(self, ids: Sequence[int]) -> list[str]:
        """End these protections as `fallow protect --release` does, and return what came of each."""

    def stop(self, subjects: Sequence[str], agreed: Agreed, say: Callable[[str], None]) -> list[str]:
        """Stop what is meant as `fallow stop` does, after a person has agreed; return what came of it."""
