"""A filler behind a keeper that is real and does not behave: nothing of it keeps fallow waiting."""

import os
import sys
import time
from collections.abc import Mapping

import pytest

from fallow.actuators.process.filler_process import Filler
from fallow.readers.proc import Proc, user_name


def filler(keeper: str, first: Mapping[str, object]) -> Filler:
    """A filler whose keeper is this Python program."""
    return Filler(
        (sys.executable, "-c", keeper),
        (),
        os.environ,
        first=first,
        table=Proc(),
        monotonic_s=time.monotonic,
        others=set(),
        user=user_name(os.geteuid()),
    )


@pytest.mark.parametrize("length", [70_000, 300_000])
def test_an_order_that_the_keeper_cannot_read_whole_starts_nothing(length: int) -> None:
    with pytest.raises(OSError, match="Argument list too long"):
        filler("", {"gives": {"LONG": "x" * length}})
