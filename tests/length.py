"""How long the tests are that are long by nature: in full where everything must run, else shortened and said so."""

import os

IN_FULL = bool(os.environ.get("FALLOW_TEST_ALL"))
PLANS = 1000 if IN_FULL else 100
HOURS = 24 if IN_FULL else 12
COMINGS = 200 if IN_FULL else 60
SAID = (
    "nothing is shortened"
    if IN_FULL
    else f"shortened to {PLANS} fault plans each, {HOURS} simulated hours and {COMINGS} comings and goings; "
    "in full with FALLOW_TEST_ALL=1"
)
