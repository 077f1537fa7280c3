"""What a neighbour can do by forging places in the queue: at most what a launch of hers that waits could do."""

import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from fallow.core.gpu import Snapshot
from fallow.core.job import GpuKey, Job
from fallow.core.process import Process
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.engine.idle_rules.line import Line
from fallow.engine.machine.world import World
from tests.core.gpus import held
from tests.places import LIMIT_S, REPOSITORY
from tests.waiting import end, until

pytestmark = [pytest.mark.as_root, pytest.mark.more]
ADA, EVE = 61001, 61003
UUID = "GPU-fa110000-0000-4000-8000-000000000000"
NOBODY = 2**22 - 1
LATER_S = 60.0
Forge = Callable[..., "subprocess.Popen[str]"]


class LaterClock:
    """A clock a minute ahead, so that every place was taken a minute ago."""

    def monotonic_s(self) -> float:
        return time.monotonic() + LATER_S

    def wall_s(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@pytest.fixture
def world(open_folder: pathlib.Path) -> Iterator[World]:
    environ = {"FALLOW_CLAIM_DIR": str(open_folder / "claims"), "FALLOW_SIMULATE": "2xH100"}
    made = World(environ, clock=LaterClock())
    os.close(made.folder.open(UUID))
    yield made
    made.close()


@pytest.fixture
def forge(world: World) -> Iterator[Forge]:
    """Have Eve lock bytes of the GPU's file, as long as her process lives."""
    started: list[subprocess.Popen[str]] = []

    def make(start: int, length: int = 1) -> "subprocess.Popen[str]":
        action = ("lock", f"{world.folder.path}/{UUID}", str(start), str(length), "ofd")
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.actuators.claims.neighbour", str(EVE), *action],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        return process

    yield make
    for process in started:
        end(process)


def now_ns() -> int:
    return time.monotonic_ns()


def label(world: World, ticket: int, pid: int, birth: int | None = None, *, owner: int = EVE) -> None:
    """Write a label that belongs to her, as she could."""
    stat = world.proc.stat(pid)
    text = {"pid": pid, "birth": birth or (1 if stat is None else stat.birth), "command": "train\x1b[2J.py"}
    path = pathlib.Path(world.folder.path, f"waiting-{ticket}")
    path.write_text(json.dumps(text))
    os.chown(path, owner, owner)


def seen(world: World) -> Reason | Unknown | None:
    """Return who waits for the GPU of somebody's job, at one tick."""
    gpu = held(0)
    line = Line(world)
    line.begin(Snapshot("host", simulated=True, at_s=0.0, wall_s=0.0, gpus=(gpu,)))
    uuid = str(gpu.uuid)
    job = Job("job", "ada", {Process(NOBODY, 1): "python"}, (GpuKey("host", UUID),), frozenset({NOBODY}))
    assert line.waits_for(Job("other", "ada", job.members, (GpuKey("host", uuid),), frozenset({NOBODY}))) is None
    return line.waits_for(job)


def test_a_place_with_a_true_label_of_hers_counts_as_hers_until_the_lock_ends(world: World, forge: Forge) -> None:
    """A real `fallow run --wait` would give her the same."""
    first = now_ns()
    eve = forge(first)  # she must be older than her place
    ticket = now_ns()
    label(world, ticket, eve.pid)
    second = forge(ticket)
    found = seen(world)
    assert isinstance(found, Reason)
    assert (found.facts["user"], found.facts["pid"]) == (str(EVE), eve.pid)
    assert str(found).isprintable()
    end(second)
    assert seen(world) is None


def test_a_lock_without_a_label_or_over_many_places_brings_nobody_into_line(world: World, forge: Forge) -> None:
    forge(now_ns())
    forge(now_ns(), 10**12)
    assert seen(world) is None


def test_a_label_that_names_another_users_process_counts_for_nobody(world: World, forge: Forge) -> None:
    ticket = now_ns()
    label(world, ticket, os.getpid())
    forge(ticket)
    assert seen(world) is None


def test_a_label_that_names_a_process_that_has_ended_counts_for_nobody(world: World, forge: Forge) -> None:
    gone = forge(now_ns())
    stat = world.proc.stat(gone.pid)
    assert stat is not None
    ticket = now_ns()
    label(world, ticket, gone.pid, stat.birth)
    forge(ticket)
    assert isinstance(seen(world), Reason)
    gone.kill()
    until(lambda: (stat := world.proc.stat(gone.pid)) is not None and stat.state, lambda state: state == "Z")
    assert seen(world) is None, "it has ended, though nobody has waited for it"
    gone.communicate(timeout=LIMIT_S)
    assert seen(world) is None


def test_a_label_of_another_owner_than_its_process_counts_for_nobody(world: World, forge: Forge) -> None:
    eve = forge(now_ns())
    ticket = now_ns()
    label(world, ticket, eve.pid, owner=ADA)
    forge(ticket)
    assert seen(world) is None


def test_a_place_from_before_her_process_was_born_counts_for_nobody(world: World, forge: Forge) -> None:
    ticket = now_ns() - 10 * 10**9
    eve = forge(ticket)
    label(world, ticket, eve.pid)
    assert seen(world) is None


def test_a_place_of_this_moment_does_not_count_yet(world: World, forge: Forge) -> None:
    eve = forge(now_ns())
    ticket = int((time.monotonic() + LATER_S) * 1e9) - 10**9
    label(world, ticket, eve.pid)
    forge(ticket)
    assert seen(world) is None
