"""Idle rules of a real `fallow up` against real services of systemd that are started again when they end."""

import os
import pathlib
import signal
from collections.abc import Iterator

import pytest

from tests.conftest import Fallow
from tests.engine.owners.conftest import rule
from tests.interfaces.cli.filled import Fill
from tests.real_units import Units
from tests.waiting import until

pytestmark = pytest.mark.engine


@pytest.fixture
def units(simulated: Fallow, tmp_path: pathlib.Path) -> Iterator[Units]:
    made = Units(tmp_path, simulated.environ)
    yield made
    made.close()


def test_an_idle_service_with_restart_always_is_stopped_for_good_and_a_protected_one_is_left_alone(
    simulated: Fallow, units: Units, tmp_path: pathlib.Path
) -> None:
    machine = {name: simulated.environ[name] for name in ("FALLOW_SIMULATE", "FALLOW_CLAIM_DIR")}
    idle, kept = f"trainer-{os.getpid()}.service", f"kept-{os.getpid()}.service"
    first = units.run(idle, {**machine, "CUDA_VISIBLE_DEVICES": "0"})
    os.kill(first, signal.SIGKILL)
    again = until(lambda: units.pid_of(idle), lambda pid: pid not in (0, first), pause_s=0.05)
    kept_pid = units.run(kept, {**machine, "CUDA_VISIBLE_DEVICES": "1"})
    config = rule(tmp_path, "[protect]\nunits = ['kept-*']\n")
    up = Fill(
        simulated.start_other(
            *units.words, "fallow", "up", "--listen", "127.0.0.1:0", "--config", config, **units.environ
        )
    )
    up.until(f"job {again} (sleep), {idle} will be stopped")
    gone = up.until(f"job {again} (sleep), {idle} was stopped")
    assert f"systemd was told to stop {idle}" in gone
    assert units.pid_of(idle) == 0
    assert units.pid_of(kept) == kept_pid
    assert not up.told("came back")
