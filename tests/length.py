"""How long the tests are that are long by nature: in full where everything must run, else shortened and said so."""

import math
import os
import random
from collections.abc import Sequence
from itertools import groupby

import pytest

IN_FULL = bool(os.environ.get("FALLOW_TEST_ALL"))
PLANS = 1000 if IN_FULL else 60
HOURS = 24 if IN_FULL else 12
COMINGS = 200 if IN_FULL else 30
LAUNCHES = 64 if IN_FULL else 24
HOSTS = 4 if IN_FULL else 2
LAUNCHES_ON_HOSTS = 16 if IN_FULL else 6
COSTLY = frozenset({"fallow", "library", "open_folder", "site", "stage"})
"""What tests use that start programs, read the stand-in driver, change users, or serve the page."""


def examples(in_full: int) -> int:
    """How many examples are drawn."""
    return in_full if IN_FULL else in_full // 3


def share_of(tests: Sequence[pytest.Item], drawn_by: str) -> list[pytest.Item]:
    """Return the tests that `make test` runs: none that is long by nature, and a fifth of those that start programs.

    The fifth is drawn from each file, so that none is left out as a whole, and others are drawn in each run.
    """
    kept: list[pytest.Item] = []
    for file, in_it in groupby(tests, key=lambda test: test.nodeid.partition("::")[0]):
        wanted = [test for test in in_it if not test.get_closest_marker("in_full")]
        costly = [test for test in wanted if not COSTLY.isdisjoint(getattr(test, "fixturenames", ()))]
        drawn = random.Random(f"{drawn_by} {file}").sample(costly, math.ceil(len(costly) / 5))
        left_out = {id(test) for test in costly} - {id(test) for test in drawn}
        kept += [test for test in wanted if id(test) not in left_out]
    return kept


SHORTENED = (
    f"shortened to {PLANS} fault plans each, {HOURS} simulated hours, {COMINGS} comings and goings, {LAUNCHES} "
    f"launches at once, {LAUNCHES_ON_HOSTS} over ssh, 4 of 15 moments to leave, and a third of all other examples"
)
LEFT_OUT = "a fifth of the tests that start programs or serve the page, and none that need a cluster or a browser"


def said(a_share: bool) -> str:
    """Say in one line what is not tested in full."""
    if IN_FULL:
        return "nothing is shortened"
    return f"{SHORTENED}{f'; {LEFT_OUT}' if a_share else ''}; in full with FALLOW_TEST_ALL=1"
