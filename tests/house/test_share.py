"""What `make test` leaves out, so that it is short, and what nothing may leave out."""

import math
import os
import subprocess
import sys

from tests.places import LIMIT_S, REPOSITORY

STARTS_FALLOW = "tests/interfaces/cli/test_wrong_input.py"
QUICK = "tests/core/test_reasons.py"
LONG = "tests/house/test_release.py"


def collected(*options: str, in_full: bool = False) -> set[str]:
    """Return the tests that a run with these options would run."""
    environ = {name: value for name, value in os.environ.items() if name not in ("FALLOW_TEST_ALL", "PYTEST_ADDOPTS")}
    listed = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "-q",
            "-p",
            "no:cacheprovider",
            *options,
            STARTS_FALLOW,
            QUICK,
            LONG,
        ],
        cwd=REPOSITORY,
        env=environ | ({"FALLOW_TEST_ALL": "1"} if in_full else {}),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    ).stdout
    return {line for line in listed.splitlines() if "::" in line}


def test_a_share_has_a_fifth_of_what_starts_programs_and_nothing_long_and_in_full_nothing_is_left_out() -> None:
    everything = collected()
    share = collected("--a-share")
    costly = {test for test in everything if test.startswith(STARTS_FALLOW)}
    assert share < everything
    assert len(share & costly) == math.ceil(len(costly) / 5)
    assert {test for test in everything if test.startswith(QUICK)} < share
    assert not any(test.startswith(LONG) for test in share)
    assert collected("--a-share", in_full=True) == everything
