"""As much of torch as the loops in the stressor's document call: tensors without numbers, and a count of operations.

After MANY of them it writes down its pid, by which a test sees that the loop goes round.
"""

import os
from typing import Any

MANY = 30


class Tensor:
    """Something that can be computed with."""

    done = 0

    def _computed(self, other: object) -> "Tensor":
        Tensor.done += 1
        if Tensor.done == MANY:
            with open(os.environ["TOY_TORCH"], "a") as file:
                file.write(f"{os.getpid()}\n")
        return Tensor()

    __add__ = __sub__ = __mul__ = __matmul__ = _computed


class cuda:  # noqa: N801  as torch has it
    """The part of it that waits."""

    @staticmethod
    def synchronize() -> None:
        """Nothing is under way."""


def randn(*size: int, device: str) -> Tensor:
    """A tensor."""
    return Tensor()


def randn_like(like: Any) -> Tensor:
    """Another."""
    return Tensor()
