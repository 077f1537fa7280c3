"""How much the tests draw: always the same in `make test`, more and each time anew in `make test-more`."""

import os

SEED = int(os.environ.get("FALLOW_TEST_MORE", "0"))
"""The seed of all that is drawn. `make test-more` draws a new one and prints it."""
MORE = "FALLOW_TEST_MORE" in os.environ
PLANS = 1000 if MORE else 60
HOURS = 24 if MORE else 12


def examples(in_more: int) -> int:
    """How many examples are drawn: so many in `make test-more`, else a third."""
    return in_more if MORE else in_more // 3
