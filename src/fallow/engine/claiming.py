"""From a request to claimed GPUs: stand in line, look, claim, look again."""

from collections.abc import Callable

from fallow.actuators.claims import HeldClaim, take
from fallow.actuators.line import Bell, Place
from fallow.core.errors import NotEnoughGpus
from fallow.core.gpu import Gpu
from fallow.core.ports import Depth
from fallow.core.promise import Claim, Promises
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value
from fallow.engine.choosing import Request, candidates, links_that_matter, not_enough
from fallow.engine.world import World
from fallow.policies.pick import Choice, choose, eligible, refusal

_QUIET_S = 1.0  # how long a missed ring could go unnoticed
_BUSY_S = 0.25  # how often to look at a card that nobody claims and somebody uses
_POLL_S = 0.05  # without inotify
_IN_PASSING_S = 5.0  # how long others who only try once may stand before us
_AFTER_A_RING_S = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02)  # it rings a moment before the lock is really free


@value
class Claimed:
    """GPUs that are ours until the claims end."""

    gpus: tuple[Gpu, ...]
    claims: tuple[HeldClaim, ...]


class _Launch:
    """One launch on its way to its GPUs."""

    def __init__(self, world: World, request: Request, command: str | None, pid: int) -> None:
        self.world = world
        self.request = request
        self.label = Claim(request.wanted.shared, pid, world.user, command, world.clock.wall_s())
        self.snapshot = world.eyes.look(Depth.GLANCE)
        self.allowed = candidates(self.snapshot, request, world.visible_devices)
        could = [str(gpu.uuid) for gpu in self.allowed.gpus if eligible(gpu, request.wanted)]
        clock = world.clock
        self.place = Place(world.folder, could, clock.monotonic_s, clock.sleep, in_passing=request.wait_s is None)

    def promises(self) -> dict[str, Promises]:
        """What is promised to others, as it stands before us."""
        now_s = self.world.clock.monotonic_s()
        return {uuid: card.promises(now_s, self.place.ticket) for uuid, card in self.place.cards.items()}

    def could_be_our_turn(self, promises: dict[str, Promises]) -> bool:
        """Whether enough GPUs are not promised to others: only then is it worth asking the driver."""
        shared = self.request.wanted.shared
        ours = [
            not promised.ahead and (promised.claim is None or (shared and promised.claim.shared))
            for promised in promises.values()
        ]
        return sum(ours) >= self.request.wanted.count

    def attempt(self, promises: dict[str, Promises]) -> Claimed | Choice:
        """Look, choose, claim, and look again at what was claimed. A choice with GPUs in it was lost to others."""
        self.snapshot = self.world.eyes.look(Depth.GLANCE)
        self.allowed = candidates(self.snapshot, self.request, self.world.visible_devices)
        choice = self.choice(promises)
        claims: list[HeldClaim] = []
        for gpu in choice.gpus:
            held = take(self.world.folder, str(gpu.uuid), self.label)
            if held is None:
                break
            claims.append(held)
        if choice.gpus and len(claims) == len(choice.gpus) and self._still_good(choice.gpus, promises):
            return Claimed(choice.gpus, tuple(claims))
        for held in claims:
            held.end()
        return choice

    def choice(self, promises: dict[str, Promises]) -> Choice:
        """What the last look and the promises leave to us."""
        wanted = self.request.wanted
        links = links_that_matter(self.world, self.allowed.gpus, wanted)
        return choose(self.allowed.gpus, wanted, promises, links, self.world.chance)

    def refused(self, choice: Choice) -> NotEnoughGpus:
        """The error that says why."""
        return not_enough(self.world, self.snapshot, self.request, self.allowed, choice)

    def _still_good(self, gpus: tuple[Gpu, ...], promises: dict[str, Promises]) -> bool:
        """Between the look and the claim somebody may have come who does not use fallow."""
        now = {gpu.uuid: gpu for gpu in self.world.eyes.look(Depth.GLANCE).gpus if not isinstance(gpu.uuid, Unknown)}
        wanted = self.request.wanted
        return all(
            gpu.uuid in now and refusal(now[gpu.uuid], wanted, replace(promises[str(gpu.uuid)], ahead=False)) is None
            for gpu in gpus
        )


def claim(world: World, request: Request, *, pid: int, command: str | None, tell: Callable[[str], None]) -> Claimed:
    """The GPUs, claimed; waits in line if the request says so, in order of arrival."""
    launch = _Launch(world, request, command, pid)
    try:
        return _at_once(launch) if request.wait_s is None else _in_line(launch, tell)
    finally:
        launch.place.leave()


def _at_once(launch: _Launch) -> Claimed:
    clock = launch.world.clock
    until_s = clock.monotonic_s() + _IN_PASSING_S
    while True:
        promises = launch.promises()
        answer = launch.attempt(promises)
        if isinstance(answer, Claimed):
            return answer
        for_a_moment = answer.gpus or any(promised.in_passing for promised in promises.values())
        if not for_a_moment or clock.monotonic_s() > until_s:
            raise launch.refused(answer)
        clock.sleep(0.002)


def _in_line(launch: _Launch, tell: Callable[[str], None]) -> Claimed:
    clock = launch.world.clock
    until_s = clock.monotonic_s() + (launch.request.wait_s or 0.0)
    bell = Bell(launch.world.folder, clock.sleep)
    try:
        rang = True
        while True:
            for nap_s in _AFTER_A_RING_S if rang else (0.0,):
                clock.sleep(nap_s)
                promises = launch.promises()
                our_turn = launch.could_be_our_turn(promises)
                answer = launch.attempt(promises) if our_turn else None
                if isinstance(answer, Claimed):
                    return answer
            left_s = until_s - clock.monotonic_s()
            if left_s <= 0:
                raise launch.refused(launch.choice(promises))
            tell(_waiting(launch))
            rang = bell.wait(min(left_s, _BUSY_S if our_turn else _QUIET_S), _POLL_S)
    finally:
        bell.close()


def _waiting(launch: _Launch) -> str:
    count, ahead = launch.request.wanted.count, launch.place.length_ahead()
    gpus = "1 GPU" if count == 1 else f"{count} GPUs"
    return f"waiting for {gpus}, {ahead} ahead in line" if ahead else f"waiting for {gpus}, first in line"
