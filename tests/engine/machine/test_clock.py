"""Local time as the C library has it, whatever TZ says."""

import os
import subprocess
import sys

import pytest

SHOWN = """
from datetime import UTC, datetime
from fallow.engine.machine.local_zone import LocalZone
print(datetime(2026, 7, 1, 12, tzinfo=UTC).astimezone(LocalZone()).isoformat())
"""


@pytest.mark.parametrize(
    ("zone", "told"),
    [
        ("CET-1CEST,M3.5.0,M10.5.0/3", "2026-07-01T14:00:00+02:00"),
        ("XXX+23:59", "2026-06-30T12:01:00-23:59"),
        ("Nowhere/Bad", "2026-07-01T12:00:00+00:00"),
    ],
)
def test_local_time_is_that_of_the_c_library(zone: str, told: str) -> None:
    environ = {**os.environ, "TZ": zone}
    done = subprocess.run([sys.executable, "-c", SHOWN], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == f"{told}\n"
