"""A refusal names only who has the GPU now: jobs that live, as of a look that is not old."""

import subprocess
from collections.abc import Callable

import pytest

from fallow.core.ports import Depth
from fallow.core.reasons import Reason
from fallow.engine.allocate.refused import not_enough
from fallow.engine.machine.world import World
from tests.conftest import Fallow
from tests.places import LIMIT_S
from tests.standin import Process
from tests.standin import World as Standin
from tests.waiting import end

GIB = 2**30
UUID = "GPU-fa110000-0000-4000-8000-000000000000"


def held(fallow: Fallow, *words: str) -> subprocess.Popen[str]:
    job = fallow.start("run", "--gpus", "0", *words, "--", "sh", "-c", "echo up; read line")
    assert job.stdout is not None
    assert job.stdout.readline() == "up\n"
    return job


@pytest.mark.parametrize("kind", ["taken", "in_line"])
def test_a_gpu_that_was_given_back_before_the_refusal_is_not_said_to_be_claimed(simulated: Fallow, kind: str) -> None:
    world = World(simulated.environ)
    seen = world.gpu_reader.look(Depth.HOLDERS)
    error = not_enough(world, seen, 4, 0, {"0": Reason(kind, claim="claimed")}, None)
    world.close()
    assert error.refused == {"0": "another launch had it, or tried it, a moment ago; try again"}


@pytest.mark.more
def test_a_wait_that_runs_out_tells_what_is_so_then_and_not_when_it_began(
    make_world: Callable[..., Standin], fallow: Fallow
) -> None:
    """It looks at GPUs only when it could be its turn, so its last look may be hours old."""
    world = make_world(cards=2)
    ends = subprocess.Popen(["sleep", "1000"])
    world[1].compute, world[1].memory_used = [Process(ends.pid, GIB)], GIB
    stays = held(fallow)
    waiting = fallow.start("run", "-n", "2", "--wait", "4s", "--", "true")
    assert waiting.stderr is not None
    assert "waiting for 2 GPUs" in waiting.stderr.readline()
    world[1].compute, world[1].memory_used = [], 0
    end(ends)
    _, rest = waiting.communicate(timeout=LIMIT_S)
    assert waiting.returncode == 75
    assert f"(pid {stays.pid})" in rest
    assert "held by" not in rest
    assert "need 2 GPUs, 1 available after waiting 4s" in rest
