"""Work that is shorter than the time between two looks is work, at whatever moment of it the daemon looks."""

import pathlib
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.conftest import Fallow
from tests.engine.daemon.test_loop import Resident
from tests.standin import Process, World

GIB = 2**30
SAMPLE_S = 0.2
KEPT_S = 14.0
EVERY_S = 2
LONGEST_PERIOD_S = 10
NO_COUNTERS = None
RULE = "[terminals]\nusers = 'ignore'\n[[idle]]\nname = 'forgotten'\nidle_for = '20s'\nwarmup = 0\nact = false\n"
GUARD = (
    "[terminals]\nusers = 'ignore'\n[[guard]]\nname = 'evening'\naction = 'shutdown'\ndry_run = true\n"
    "arm_for = '4s'\nidle_for = '90s'\ncountdown = '10s'\n"
)
SHARES = {
    "5 % of each second": (1.0, 0.05),
    "5 % of each second, in the middle": (1.0, 0.05, 0.4),
    "a tenth of a second every two": (2.0, 0.1),
    "a tenth of a second every two, just after each look": (2.0, 0.1, 0.01),
    "a tenth of a second every two, just before each look": (2.0, 0.1, 1.85),
    "a moment every ten seconds": (10.0, 0.2, 5.0),
}


def sampled(at_s: float, period_s: float, works_s: float, from_s: float = 0.0) -> list[tuple[int, int]]:
    """The samples that the driver keeps of a job that works for so long in each period."""
    count = round(KEPT_S / SAMPLE_S)
    ends = [at_s - SAMPLE_S * place for place in range(count)]
    found = []
    for end_s in reversed(ends):
        steps = [end_s - SAMPLE_S * (step + 0.5) / 20 for step in range(20)]
        ran = sum(from_s <= step_s % period_s < from_s + works_s for step_s in steps) / 20
        found.append((round(end_s * 1e6), round(100 * ran)))
    return found


@contextmanager
def daemon_on(fallow: Fallow, file: pathlib.Path, config: str) -> Iterator[Resident]:
    file.write_text(config)
    file.chmod(0o600)
    daemon = Resident(fallow.environ, file)
    try:
        yield daemon
    finally:
        daemon.leave()


@pytest.fixture
def somebody() -> Iterator[int]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process.pid
        process.kill()


def test_a_job_that_works_for_a_moment_of_each_look_is_never_idle(
    world: World, fallow: Fallow, tmp_path: pathlib.Path, somebody: int
) -> None:
    cards = dict(zip(SHARES, world, strict=False))
    begin_s = 1_700_000_000.0
    for name, card in cards.items():
        card.gpm, card.utilization = NO_COUNTERS, 0  # the instant of each look shows nothing
        card.compute, card.memory_used = [Process(somebody, GIB)], GIB
        card.samples = sampled(begin_s, *SHARES[name])
    with daemon_on(fallow, tmp_path / "fallow.toml", RULE) as daemon:
        seen, daemon_began_s = set[str](), daemon("tick", ticks=0)
        for look in range(1, 60):
            for name, card in cards.items():
                card.samples = sampled(begin_s + look * EVERY_S, *SHARES[name])
            daemon("tick")
            if look * EVERY_S > LONGEST_PERIOD_S:  # each has been seen to work once
                seen |= set(daemon("see")["activities"][: len(cards)])
        assert daemon("tick", ticks=0) == daemon_began_s + 59 * EVERY_S, "it looks every two seconds by itself"
        assert seen == {"busy"}
        assert not daemon.said("forgotten")
        stopped = sampled(begin_s + 60 * EVERY_S, 1.0, 0.0)
        for look in range(60, 90):
            for card in cards.values():
                card.samples = [(at_us + (look - 60) * EVERY_S * 1_000_000, 0) for at_us, _ in stopped]
            daemon("tick")
        assert set(daemon("see")["activities"][: len(cards)]) == {"idle"}
        assert daemon.said("forgotten"), "the same rule finds them once they do nothing"


def test_a_guard_sees_jobs_that_come_and_go_between_two_looks(
    make_world: Callable[..., World], fallow: Fallow, tmp_path: pathlib.Path, somebody: int
) -> None:
    begin_s, card = 1_700_000_000.0, make_world(cards=1)[0]
    card.gpm, card.samples = NO_COUNTERS, sampled(begin_s, 1.0, 0.0)
    with daemon_on(fallow, tmp_path / "fallow.toml", GUARD) as daemon:
        card.compute, card.utilization = [Process(somebody, GIB)], 90
        daemon.until(lambda seen: seen["guards"] == [["evening", "armed"]])
        card.compute, card.utilization = [], 0
        for look in range(1, 300):
            card.samples = sampled(begin_s + look * EVERY_S, 60.0, 1.5, 0.1)  # over again when it looks
            daemon("tick")
        assert daemon("see")["guards"] == [["evening", "armed"]]
        assert not daemon.said("would turn the machine off")
        for look in range(300, 400):
            card.samples = sampled(begin_s + look * EVERY_S, 1.0, 0.0)
            daemon("tick")
        assert daemon.said("would turn the machine off"), "and acts once nobody comes any more"


def test_a_guard_goes_on_counting_when_the_daemon_looks_less_often(
    make_world: Callable[..., World], fallow: Fallow, tmp_path: pathlib.Path, somebody: int
) -> None:
    card, file = make_world(cards=1)[0], tmp_path / "fallow.toml"
    with daemon_on(fallow, file, GUARD) as daemon:
        card.compute, card.utilization = [Process(somebody, GIB)], 90
        daemon.until(lambda seen: seen["guards"] == [["evening", "armed"]])
        file.write_text(f"[machine]\nevery = '15s'\n{GUARD}")
        assert daemon("reload") is True
        card.compute, card.utilization = [], 0
        daemon.until(lambda _: daemon.said("would turn the machine off"), most=10)
