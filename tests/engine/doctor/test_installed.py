"""`fallow doctor` says which fallow a shell starts."""

import json
import pathlib

from fallow import __version__
from tests.conftest import Fallow
from tests.places import BIN, LIMIT_S


def test_it_says_which_version_this_is_and_that_it_is_the_one_on_the_path(simulated: Fallow) -> None:
    found = {each["part"]: each for each in json.loads(simulated("doctor", "--json").stdout)["checks"]}
    assert f"{__version__} with Python " in found["fallow"]["means"]
    assert found["command"]["state"] == "ok"


def test_another_one_that_is_first_on_the_path_is_named(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    other = tmp_path / "bin" / "fallow"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    (tmp_path / "ours").mkdir()
    ours = tmp_path / "ours" / "start"
    ours.symlink_to(BIN / "fallow")
    process = simulated.start_other(str(ours), "doctor", "--json", PATH=f"{other.parent}:{BIN}:/usr/bin:/bin")
    found = {each["part"]: each for each in json.loads(process.communicate(timeout=LIMIT_S)[0])["checks"]}
    assert found["command"]["state"] == "lacking"
    assert str(other) in found["command"]["means"]
    assert str(BIN) in found["command"]["remedy"]
