"""Writes to the claim folder wake the fill loop, and a flood of them costs little."""

import pathlib
from collections.abc import Iterator

import pytest

from fallow.core.fillers import Yield
from fallow.core.ports import Depth
from fallow.engine.fill.device_events import CLAIMS, DeviceEvents
from fallow.engine.fill.start import FillerSpec
from fallow.engine.machine.presence import PresenceRules
from fallow.engine.machine.world import World
from fallow.policies.fill import FillRules
from tests.conftest import Fallow


class OneSlot:
    """As much of a slot as DeviceEvents needs: its GPUs, and which opens its filler yields to."""

    def __init__(self, world: World) -> None:
        self.gpus = world.gpu_reader.look(Depth.HOLDERS).gpus[:1]
        self.uuids = tuple(str(gpu.uuid) for gpu in self.gpus)
        self.spec = FillerSpec(("true",), FillRules(manner=Yield.TERM), PresenceRules())


@pytest.fixture
def world(simulated: Fallow) -> World:
    return World(simulated.environ)


@pytest.fixture
def events(world: World) -> Iterator[DeviceEvents]:
    made = DeviceEvents(world, lambda _: False, lambda _: None)
    made.watch([OneSlot(world)])  # type: ignore[list-item]
    yield made
    made.close()


@pytest.mark.more
def test_a_thousand_writes_a_second_are_heard_fifty_times(world: World, events: DeviceEvents) -> None:
    """Weak: writing to the claim folder at 1.5 kHz. The first is heard at once, the next 20 ms later."""
    file = pathlib.Path(world.folder.path) / "noise"
    heard_at: list[float] = []
    now_s = 1000.0
    for _ in range(1500):
        file.write_bytes(b"x")
        if CLAIMS in events.read(now_s, set()).came:
            heard_at.append(now_s)
        rests = len(events.fds(now_s)) == 1
        assert rests == (events.next_look_s(now_s) is not None), "who does not listen looks again by itself"
        now_s += 1 / 1500
    assert heard_at[0] == 1000.0
    assert 45 <= len(heard_at) <= 50
    assert CLAIMS in events.read(now_s + 1, set()).came, "and the last of them is not lost"
    assert CLAIMS not in events.read(now_s + 2, set()).came


def test_where_a_look_is_dear_writes_are_heard_less_often(world: World, events: DeviceEvents) -> None:
    """Weak: writing to the claim folder at 1.5 kHz: looking takes a tenth of a core at most."""
    file = pathlib.Path(world.folder.path) / "noise"
    file.write_bytes(b"x")
    assert CLAIMS in events.read(1000.0, set()).came
    events.pause_claims(1000.3)
    file.write_bytes(b"y")
    assert CLAIMS not in events.read(1000.2, set()).came
    assert events.next_look_s(1000.2) == 1000.3
    assert CLAIMS in events.read(1000.31, set()).came
