"""How long the tests are that are long by nature: in full where everything must run, else shortened and said so."""

import os

IN_FULL = bool(os.environ.get("FALLOW_TEST_ALL"))
PLANS = 1000 if IN_FULL else 60
HOURS = 24 if IN_FULL else 12
COMINGS = 200 if IN_FULL else 30
LAUNCHES = 64 if IN_FULL else 24
HOSTS = 4 if IN_FULL else 2
LAUNCHES_ON_HOSTS = 40 if IN_FULL else 6


def examples(in_full: int) -> int:
    """How many examples are drawn."""
    return in_full if IN_FULL else in_full // 3


SAID = (
    "nothing is shortened"
    if IN_FULL
    else f"shortened to {PLANS} fault plans each, {HOURS} simulated hours, {COMINGS} comings and goings, {LAUNCHES} "
    f"launches at once, {LAUNCHES_ON_HOSTS} over ssh, 4 of 15 moments to leave, and a third of all other "
    "examples; in full with FALLOW_TEST_ALL=1"
)
