"""What `make test` leaves out, so that it is short, and what nothing may leave out."""

import os
import subprocess
import sys

from tests.places import LIMIT_S, REPOSITORY

MANY_CASES = "tests/interfaces/cli/test_wrong_input.py"
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
            MANY_CASES,
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


def test_a_share_has_every_claim_but_the_long_ones_and_in_full_nothing_is_left_out() -> None:
    everything = collected()
    share = collected("--a-share")
    assert share < everything
    claims = {test.partition("[")[0] for test in everything}
    assert {test.partition("[")[0] for test in share} == {claim for claim in claims if not claim.startswith(LONG)}
    assert collected("--a-share", in_full=True) == everything
