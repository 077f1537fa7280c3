"""A disk without room is found by `fallow doctor`, and is not called a right that is missing."""

import json
import os
import pathlib
import subprocess

import pytest

from tests.conftest import Fallow
from tests.places import LIMIT_S

pytestmark = pytest.mark.more

_SCRIPT = """
mount -t tmpfs -o size=64k none "$1" && mkdir -m 1777 "$1/claims" && mkdir -m 700 -p "$1/state/simulated" || exit 99
cat /dev/zero > "$1/everything" 2>/dev/null
fallow protect 0 --for 1h
echo "$?"
fallow doctor --json
"""


def test_a_full_disk_is_broken_and_a_protection_on_it_no_missing_right(
    simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("a small file system of its own needs root")
    small = tmp_path / "small"
    small.mkdir()
    places = {"FALLOW_CLAIM_DIR": str(small / "claims"), "FALLOW_STATE_DIR": str(small / "state")}
    line = ["unshare", "--mount", "sh", "-c", _SCRIPT, "sh", str(small)]
    environ = {**simulated.environ, **places}
    done = subprocess.run(line, env=environ, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if done.returncode == 99 or "unshare failed" in done.stderr:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    code, _, told = done.stdout.partition("\n")
    assert code == "125", done.stderr
    assert f"cannot place a protection in {small}/claims: No space left on device" in done.stderr
    checks = {each["part"]: each for each in json.loads(told)["checks"]}
    for part in ("claims", "state"):
        assert checks[part]["state"] == "broken"
        assert f"the disk of {small}/{part}" in checks[part]["means"]
        assert checks[part]["remedy"].startswith("make room: df ")
