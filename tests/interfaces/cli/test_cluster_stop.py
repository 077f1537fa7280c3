"""`fallow stop slurm:7`: what it prints, and with which code it exits, over an engine that a test plans."""

import math
import pathlib
from argparse import Namespace

import pytest

from fallow.core.findings import Outcome
from fallow.core.protections import OneClusterJob
from fallow.engine.machine.world import World
from fallow.interfaces.cli import cluster_stop
from fallow.interfaces.stderr import Stderr
from tests.engine.cluster.planned import PlannedEngine, job

ASKED = Namespace(subjects=["slurm:7"], yes=True, dry_run=False, idle=False, json=False, grace=0.0)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> PlannedEngine:
    made = PlannedEngine()
    made.jobs = [job(7)]
    monkeypatch.setattr(cluster_stop, "engine_of_key", lambda *_: made)
    return made


@pytest.fixture
def world(tmp_path: pathlib.Path) -> World:
    places = {"FALLOW_CLAIM_DIR": str(tmp_path / "claims"), "FALLOW_STATE_DIR": str(tmp_path / "state")}
    return World({**places, "HOME": str(tmp_path)})


def stop(world: World, **more: object) -> int:
    return cluster_stop.run(Namespace(**{**vars(ASKED), **more}), world, Stderr(world.clock.wall_s))


@pytest.mark.parametrize(("not_permitted", "code"), [(True, 77), (False, 1)])
def test_a_job_of_another_user_is_77_and_what_fails_otherwise_is_1(
    engine: PlannedEngine, world: World, not_permitted: bool, code: int
) -> None:
    engine.outcome = Outcome(False, "it was refused", not_permitted=not_permitted)
    assert stop(world) == code


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.as_root
def test_a_protected_job_is_left_and_it_is_told_how_to_release_it(
    engine: PlannedEngine, world: World, capsys: pytest.CaptureFixture[str], dry_run: bool
) -> None:
    number = world.protections.place(OneClusterJob("slurm:7"), math.inf, "mine")
    assert stop(world, dry_run=dry_run) == 1
    assert f"releases it with: fallow protect --release {number}" in capsys.readouterr().out
    assert engine.done == []
