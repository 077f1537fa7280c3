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
LAUNCHES_ON_HOSTS = 40 if IN_FULL else 6
FEW = 3


def examples(in_full: int) -> int:
    """How many examples are drawn."""
    return in_full if IN_FULL else in_full // 3


def share_of(tests: Sequence[pytest.Item], drawn_by: str) -> list[pytest.Item]:
    """Return the tests that `make test` runs: all claims but those that are long by nature.

    Of a claim that starts fallow for each of more than 3 cases, a third of the cases is drawn, others in each run.
    """
    kept: list[pytest.Item] = []
    for claim, cases in groupby(tests, key=lambda test: test.nodeid.partition("[")[0]):
        wanted = [case for case in cases if not case.get_closest_marker("in_full")]
        if len(wanted) > FEW and "fallow" in getattr(wanted[0], "fixturenames", ()):
            drawn = set(random.Random(f"{drawn_by} {claim}").sample(range(len(wanted)), math.ceil(len(wanted) / 3)))
            wanted = [case for number, case in enumerate(wanted) if number in drawn]
        kept += wanted
    return kept


SHORTENED = (
    f"shortened to {PLANS} fault plans each, {HOURS} simulated hours, {COMINGS} comings and goings, {LAUNCHES} "
    f"launches at once, {LAUNCHES_ON_HOSTS} over ssh, 4 of 15 moments to leave, and a third of all other examples"
)
LEFT_OUT = (
    "a third of the cases of claims that start fallow for each, and none that need a whole cluster or a browser"
)


def said(a_share: bool) -> str:
    """Say in one line what is not tested in full."""
    if IN_FULL:
        return "nothing is shortened"
    return f"{SHORTENED}{f'; {LEFT_OUT}' if a_share else ''}; in full with FALLOW_TEST_ALL=1"
