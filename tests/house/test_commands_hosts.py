"""Commands in the documents for several hosts are run over a real ssh, on four hosts with simulated GPUs."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.house.commands import blocks_run_by
from tests.house.stage import Stage
from tests.real_sshd import Hosts, missing

LINES = list(dict.fromkeys(line.partition(" # ")[0] for block in blocks_run_by(__file__) for line in block.lines))
pytestmark = [pytest.mark.engine, pytest.mark.more]
NAMES = ("gpu1", "gpu2", "gpu3", "gpu4")


@pytest.fixture
def hosts(tmp_path: pathlib.Path) -> Iterator[Hosts]:
    why = missing()
    if why is not None:
        pytest.skip(why)
    made = Hosts(tmp_path / "hosts")
    yield made
    made.close()


def test_every_command_for_several_hosts_runs(hosts: Hosts, tmp_path: pathlib.Path) -> None:
    stage = Stage(tmp_path / "here", with_daemon=False)
    programs = stage.fallow.environ["PATH"].partition(":")[0]
    for name in NAMES:
        hosts.add(name, "2xH100")
    stage.fallow.environ |= hosts.environ | {"FALLOW_HOSTS": " ".join(NAMES)}
    for line in LINES:
        patient = line.replace("--on", "--answer-within 120s --on").replace("-- python3 ", f"-- {programs}/python ")
        done = stage.bash(patient)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        assert " run " in line or any(name in done.stdout for name in NAMES), f"{line}\n{done.stdout}"
