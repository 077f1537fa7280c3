"""V8: a claim that no process uses is idleness of the claimer, and idle rules see it."""

import pathlib
import signal
import time
from collections.abc import Callable

from tests.conftest import Fallow
from tests.core.gpus import idle
from tests.engine.idle_rules.enforcer_resident import Resident
from tests.engine.idle_rules.test_enforcer import patrol  # noqa: F401  a fixture
from tests.places import LIMIT_S

CARD = "GPU-fa110000-0000-4000-8000-000000000000"


def test_a_claim_that_nobody_uses_is_warned_asked_and_gone(
    patrol: Callable[..., Resident],  # noqa: F811
    fallow: Fallow,
) -> None:
    """V8"""
    launch = fallow.start("run", "--simulate", "1xH100", "--", "sleep", "1000")
    by_s = time.monotonic() + LIMIT_S
    while pathlib.Path(f"/proc/{launch.pid}/comm").read_text() != "sleep\n":
        assert time.monotonic() < by_s
        time.sleep(0.02)
    empty = (idle(uuid=CARD),)
    resident = patrol()
    told = resident("turn", gpus=[empty] * 17)
    assert len(told) == 1
    assert " will be stopped " in told[0]
    assert f"job {launch.pid} (sleep)" in told[0]
    assert launch.poll() is None
    told = resident("turn", gpus=[empty] * 9)
    assert ": idle for 20s" in told[0]
    assert "stopping " in told[0]
    assert launch.wait(LIMIT_S) == -signal.SIGTERM
    assert "nobody of it is left" in resident("turn", gpus=[empty] * 2)[-1]


def test_a_card_that_nobody_has_claimed_is_nobodys(
    patrol: Callable[..., Resident],  # noqa: F811
) -> None:
    resident = patrol()
    assert resident("turn", gpus=[(idle(uuid=CARD),)] * 40) == []
    assert resident("jobs", gpus=(idle(uuid=CARD),)) == []


def test_a_launch_that_minds_its_own_job_is_left_to_itself(
    patrol: Callable[..., Resident],  # noqa: F811
    fallow: Fallow,
) -> None:
    """V8: `fallow run --idle-timeout` stops its job itself, in its own time."""
    launch = fallow.start("run", "--simulate", "1xH100", "--idle-timeout", "1h", "--", "sleep", "1000")
    by_s = time.monotonic() + LIMIT_S
    children = pathlib.Path(f"/proc/{launch.pid}/task/{launch.pid}/children")
    while not children.read_text().split():
        assert time.monotonic() < by_s
        time.sleep(0.02)
    resident = patrol()
    assert resident("jobs", gpus=(idle(uuid=CARD),)) == []
    assert resident("turn", gpus=[(idle(uuid=CARD),)] * 40) == []
    assert launch.poll() is None
