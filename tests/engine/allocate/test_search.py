"""A launch looks, chooses under the gate, claims, and looks again; in line it waits for its turn."""

import os
import pathlib
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from fallow.actuators.claims.claims import take
from fallow.actuators.claims.waitline import Place
from fallow.actuators.files import ofd_locks
from fallow.core.errors import FallowError, NotEnoughGpus
from fallow.core.gpu import Gpu, Holder, Snapshot
from fallow.core.ports import Depth
from fallow.core.reasons import Reason
from fallow.core.reservations import Note
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.allocate.claim import claim
from fallow.engine.allocate.pick import pick
from fallow.engine.allocate.refused import not_enough
from fallow.engine.allocate.search import Request
from fallow.engine.machine.claims_seen import claim_of
from fallow.engine.machine.world import World
from fallow.policies.pick import Order, Wanted
from tests.engine.allocate.storm import CARDS, FreeCards
from tests.harness import ManualClock

ONE = Wanted(1, order=Order.INDEX)


class TickingClock(ManualClock):
    """A second passes whenever somebody asks."""

    def monotonic_s(self) -> float:
        self.now_s += 1
        return self.now_s


class Cards(FreeCards):
    """Two cards, and by index those that a process holds: at the first look, at the next ones, from then on."""

    def __init__(self, *held: set[int]) -> None:
        self.held = list(held)
        self.nameless: set[int] = set()
        """Those of which the UUID cannot be read."""

    def look(self, depth: Depth) -> Snapshot:
        held = self.held.pop(0) if len(self.held) > 1 else self.held[0]
        seen = super().look(depth)
        return replace(seen, gpus=tuple(self.shown(gpu, held) for gpu in seen.gpus[:2]))

    def shown(self, gpu: Gpu, held: set[int]) -> Gpu:
        gpu = replace(gpu, holders=(Holder(1, 1),)) if gpu.index in held else gpu
        return replace(gpu, uuid=Unknown("no answer")) if gpu.index in self.nameless else gpu


class GateTried(World):
    """A world that tries the gate whenever a choice draws lots."""

    passed = False

    def chance(self) -> int:
        fd = os.open(self.folder.path, os.O_RDONLY)
        self.passed = self.passed or ofd_locks.take_whole(fd)
        os.close(fd)
        return 0


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    made = World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims")}, clock=TickingClock())
    made.gpu_reader = Cards(set())
    yield made
    made.close()


def claimed(world: World, wanted: Wanted = ONE, wait_s: float | None = None, say: Callable[[str], None] = str) -> str:
    got = claim(world, Request(wanted, wait_s=wait_s), program="train", say=say)
    return ",".join(str(gpu.uuid) for gpu in got.gpus)


def test_a_gpu_that_a_job_without_fallow_takes_before_the_second_look_is_given_back_for_another(world: World) -> None:
    world.gpu_reader = Cards(set(), {0})
    assert claimed(world) == CARDS[1]
    assert claim_of(world, CARDS[0]) is None


def test_of_two_gpus_both_are_given_back_if_one_is_taken_before_the_second_look(world: World) -> None:
    world.gpu_reader = Cards(set(), {1})
    with pytest.raises(NotEnoughGpus, match="need 2 GPUs, 1 available"):
        claimed(world, Wanted(2))
    assert [claim_of(world, uuid) for uuid in CARDS[:2]] == [None, None]


def test_gpus_are_chosen_and_taken_while_no_other_launch_passes_the_gate(world: World) -> None:
    tried = GateTried(world.environ, clock=world.clock)
    tried.gpu_reader = Cards(set())
    assert len(pick(tried, Request(Wanted(1)))) == 1
    assert not tried.passed
    tried.chance()
    assert tried.passed, "it is open again"
    tried.close()


@pytest.mark.parametrize("is_pick", [False, True])
def test_a_launch_that_tries_once_takes_no_gpu_for_which_another_waits_but_those_of_waiting_picks(
    world: World, *, is_pick: bool
) -> None:
    place = Place(world.folder, world.clock, Note(1, program="eve"), CARDS[:2], is_pick=is_pick)
    if is_pick:
        assert claimed(world) == CARDS[0]
    else:
        with pytest.raises(NotEnoughGpus, match="0 available") as refused:
            claimed(world)
        assert refused.value.refused["1"] == f"pid 1 ({world.user}: eve) came earlier and waits for it"
    place.close()


def test_a_launch_that_is_stopped_keeps_nobody_waiting_until_it_continues(world: World) -> None:
    with subprocess.Popen(["sleep", "1000"]) as waiting:
        stat = world.proc.stat(waiting.pid)
        assert stat is not None
        place = Place(world.folder, world.clock, Note(waiting.pid, stat.birth), CARDS[:2])
        waiting.send_signal(signal.SIGSTOP)
        os.waitpid(waiting.pid, os.WUNTRACED)
        assert claimed(world) == CARDS[0]
        waiting.send_signal(signal.SIGCONT)
        os.waitpid(waiting.pid, os.WCONTINUED)
        with pytest.raises(NotEnoughGpus):
            claimed(world)
        place.close()
        waiting.kill()


def test_the_first_in_line_gets_the_gpu_and_says_how_many_are_ahead_until_then(world: World) -> None:
    earlier = Place(world.folder, world.clock, Note(1, program="eve"), CARDS[:2])
    held = take(world.folder, CARDS[1], Note())
    assert held is not None
    said: list[str] = []

    def say(sentence: str) -> None:
        said.append(sentence)
        if len(said) == 2:
            earlier.close()

    assert claimed(world, wait_s=3600.0, say=say) == CARDS[0]
    assert [sentence.partition(";")[0] for sentence in said] == ["waiting for 1 GPU, 1 ahead"] * 2
    held.end()
    assert not [name for name in world.folder.names() if name.startswith("wait-")], "it has left the line"


def test_a_launch_that_needs_a_gpu_whose_file_cannot_be_used_is_refused_at_once_with_its_owner(world: World) -> None:
    os.mkdir(f"{world.folder.path}/{CARDS[1]}")
    with pytest.raises(NotEnoughGpus) as refused:
        claimed(world, Wanted(2), wait_s=3600.0)
    assert "is not a plain file that every user may write to; it is " in refused.value.refused["1"]
    assert claimed(world) == CARDS[0]


def test_a_card_that_appears_while_a_launch_waits_is_given_to_it(world: World) -> None:
    cards = Cards({0})
    cards.nameless = {1}
    world.gpu_reader = cards
    assert claimed(world, wait_s=3600.0, say=lambda _: cards.nameless.clear()) == CARDS[1]


def test_a_wait_ends_with_what_is_so_then_and_not_when_it_began(world: World) -> None:
    """It asks the driver only when it could be its turn, so its last look may be hours old."""
    world.gpu_reader = Cards({1}, set())
    held = take(world.folder, CARDS[0], Note())
    assert held is not None
    with pytest.raises(NotEnoughGpus, match="need 2 GPUs, 1 available after waiting 9s") as refused:
        claimed(world, Wanted(2), wait_s=9.0)
    assert refused.value.refused == {"0": "claimed by a process that is not seen here"}
    held.end()


def test_a_place_cannot_be_taken_where_no_file_can_be_made(world: World) -> None:
    world.folder.close()
    world.folder.fd = os.open("/proc/self", os.O_RDONLY | os.O_DIRECTORY)
    with pytest.raises(FallowError, match="cannot wait in line"):
        Place(world.folder, world.clock, Note(), CARDS)


@pytest.mark.parametrize("kind", ["taken", "in_line"])
def test_a_gpu_that_was_given_back_before_the_refusal_is_not_said_to_be_claimed(world: World, kind: str) -> None:
    seen = world.gpu_reader.look(Depth.HOLDERS)
    error = not_enough(world, seen, 4, 0, {"0": Reason(kind, claim="claimed")}, None)
    assert error.refused == {"0": "another launch had it, or tried it, a moment ago; try again"}


def test_a_pick_avoids_what_was_picked_moments_ago_only_while_it_can(tmp_path: pathlib.Path) -> None:
    world = World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims")}, clock=ManualClock())
    world.gpu_reader = Cards(set())
    picked = [pick(world, Request(ONE))[0].label for _ in range(3)]
    assert picked == ["0", "1", "0"]
    world.close()
