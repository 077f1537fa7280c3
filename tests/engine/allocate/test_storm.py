"""Launches of several users at once, some of them killed, never share a card."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from fallow.actuators.claims.folder import ClaimFolder
from fallow.actuators.claims.waitline import waiting
from tests.engine.allocate.storm import CLASH, TOO_FEW
from tests.length import SEED
from tests.places import REPOSITORY


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("launches", "kills"), [(60, 12), pytest.param(1000, 200, marks=pytest.mark.more)])
def test_launches_of_several_users_never_share_a_card_whichever_are_killed(
    open_folder: pathlib.Path, launches: int, kills: int
) -> None:
    command = [sys.executable, "-m", "tests.engine.allocate.storm", str(open_folder), str(launches), str(kills)]
    done = subprocess.run([*command, str(SEED)], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    codes = {int(code): count for code, count in json.loads(done.stdout).items()}
    assert CLASH not in codes, (codes, SEED)
    assert set(codes) <= {0, -9, TOO_FEW}, (codes, done.stderr, SEED)
    assert codes[0] > launches / 4, codes
    assert codes[-9] > kills / 4, codes
    folder = ClaimFolder(f"{open_folder}/claims")
    assert list(waiting(folder)) == [], "who was killed waits no more"
    folder.close()


def test_the_witness_of_a_card_shows_when_two_jobs_have_it(tmp_path: pathlib.Path) -> None:
    command = ["/usr/bin/flock", "-n", "-E", str(CLASH), str(tmp_path / "card")]
    assert subprocess.run([*command, *command, "true"], check=False).returncode == CLASH
    assert os.path.exists(tmp_path / "card")
