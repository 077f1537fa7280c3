"""Claims the GPUs of a request: it joins the queue, looks at the GPUs, claims some, and looks again."""

import os
from collections.abc import Callable

from fallow.actuators.claims.claims import HeldClaim, take
from fallow.actuators.claims.folder import FileRefused, to_give_it_to_root
from fallow.actuators.claims.queue import FolderWatch, QueueEntry, sweep
from fallow.core.errors import NotEnoughGpus
from fallow.core.gpu import Gpu
from fallow.core.reservations import Claim, Reservations
from fallow.core.value import replace, value
from fallow.engine.allocate.own_launch import refuse_to_wait_for_ourselves
from fallow.engine.allocate.pick import (
    Request,
    candidates,
    counted,
    links_that_matter,
    not_enough,
    refused_file,
    warn_of_indices,
    way_to_ask,
)
from fallow.engine.machine.claim_holders import awake, lives, stands
from fallow.engine.machine.world import World
from fallow.engine.machine.yielding_gpus import wait_until_clear, without_fillers
from fallow.policies.pick import Choice, choose, eligible, refusal
from fallow.readers.proc import user_name

_CHECK_S = 1.0  # for changes of the folder that inotify did not report
_BUSY_S = 0.25  # between looks at GPUs that are used without a claim
_POLL_S = 0.05  # without inotify
_IN_PASSING_S = 10.0  # how long launches that try only once may go before us
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.05
_AFTER_A_CHANGE_S = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02)  # the event comes a moment before the lock is free


@value
class Claimed:
    """GPUs with the claims on them."""

    gpus: tuple[Gpu, ...]
    claims: tuple[HeldClaim, ...]


class _Launch:
    """One launch that wants GPUs: its request, its place in the queue, and its last look at the GPUs."""

    def __init__(self, world: World, request: Request, program: str, pid: int) -> None:
        self.world = world
        self.request = request
        stat = world.proc.stat(pid)
        birth = None if stat is None else stat.birth
        clock = world.clock
        self.label = Claim(request.wanted.shared, pid, world.user, program, clock.wall_s(), birth)
        in_passing = request.wait_s is None
        self.entry = QueueEntry(
            world.folder,
            self.label,
            clock.monotonic_s,
            clock.sleep,
            stands(world),
            awake(world),
            in_passing=in_passing,
        )

    def look(self) -> None:
        """Look at the GPUs, and join the queue of every GPU that would do; new ones may have appeared."""
        self.snapshot = self.world.gpu_reader.look(self.request.depth)
        self.request = counted(self.snapshot, self.request, self.world.visible_devices)
        wanted = self.request.wanted
        self.allowed = candidates(self.snapshot, self.request, self.world.visible_devices)
        fit = [gpu for gpu in self.allowed.gpus if eligible(gpu, wanted) and gpu.trouble is None]
        self.entry.join([gpu.uuid for gpu in fit if isinstance(gpu.uuid, str)])

    def awaited(self) -> list[Gpu]:
        """Return the GPUs that would do, as of the last look."""
        return [gpu for gpu in self.allowed.gpus if gpu.uuid in self.entry.files]

    def is_hopeless(self) -> bool:
        """Return whether too few GPUs work, so that waiting would only keep others from them."""
        return len(self.entry.files) < self.request.wanted.count

    def could_be_our_turn(self, reservations: dict[str, Reservations]) -> bool:
        """Return whether enough GPUs are not reserved for others; only then is it worth querying the driver."""
        shared = self.request.wanted.shared
        ours = [
            not each.ahead and (each.claim is None or (shared and each.claim.shared))
            for each in reservations.values()
        ]
        return sum(ours) >= self.request.wanted.count

    def attempt(self) -> Claimed | Choice:
        """Look, choose, claim, and look again. A choice that is returned with GPUs in it was lost to others."""
        self.look()
        reservations = self.entry.reservations()
        choice = self.choice(reservations)
        claims: list[HeldClaim] = []
        try:
            for gpu in choice.gpus:
                held = self._take(gpu)
                if held is None:
                    break
                claims.append(held)
            if choice.gpus and len(claims) == len(choice.gpus) and self._still_good(choice.gpus, reservations):
                return Claimed(choice.gpus, tuple(claims))
        except BaseException:
            _end(claims)
            raise
        _end(claims)
        return choice

    def _take(self, gpu: Gpu) -> HeldClaim | None:
        try:
            return take(self.world.folder, str(gpu.uuid), self.label)
        except FileRefused as error:
            self.entry.shut[str(gpu.uuid)] = error
            return None

    def choice(self, reservations: dict[str, Reservations]) -> Choice:
        """Return what the last look and the reservations of others leave for us."""
        wanted = self.request.wanted
        links = links_that_matter(self.world, self.allowed.gpus, wanted)
        shut = self.entry.shut
        against = {gpu.label: refused_file(shut[str(gpu.uuid)]) for gpu in self.allowed.gpus if str(gpu.uuid) in shut}
        there = [gpu for gpu in self.allowed.gpus if gpu.label not in against]
        free, adjusted = without_fillers(self.world, there, reservations, of_all_users=True)
        choice = choose(free, wanted, adjusted, links, self.world.chance)
        return replace(choice, refused={**choice.refused, **against})

    def refused(self, choice: Choice) -> NotEnoughGpus:
        """Return the error that says why."""
        return not_enough(self.world, self.snapshot, self.request, self.allowed, choice)

    def _still_good(self, gpus: tuple[Gpu, ...], reservations: dict[str, Reservations]) -> bool:
        """Return whether the GPUs are still free: a job without fallow may have started since the look."""
        wanted = self.request.wanted
        seen = self.world.gpu_reader.look(self.request.depth).gpus
        now = {gpu.uuid: gpu for gpu in without_fillers(self.world, seen, reservations, of_all_users=True)[0]}
        return all(
            gpu.uuid in now
            and refusal(now[gpu.uuid], wanted, replace(reservations[str(gpu.uuid)], ahead=False)) is None
            for gpu in gpus
        )


def _end(claims: list[HeldClaim]) -> None:
    for held in claims:
        held.end()


def claim(
    world: World, request: Request, *, pid: int, program: str, say: Callable[[str], None] | None = None
) -> Claimed:
    """Claim GPUs and return them; wait in the queue if the request says so.

    `program` is shown to others as what the GPUs are claimed for: a name, not a command line.
    """
    say = say or (lambda _: None)
    warn_of_folder_owner(world, say)
    launch = _Launch(world, request, program, pid)
    try:
        try:
            launch.look()
            warn_of_indices(world, launch.snapshot, say)
            sweep(world.folder, lives(world))
            claimed = _claim_now(launch) if request.wait_s is None else _claim_in_turn(launch, say)
        finally:
            launch.entry.leave()
    finally:
        launch.entry.leave()  # again: a signal may have broken off the first time
    try:
        if not request.wanted.shared:
            wait_until_clear(world, claimed.gpus, request.wanted.max_processes, say)
    except BaseException:
        _end(list(claimed.claims))
        raise
    return claimed


def warn_of_folder_owner(world: World, say: Callable[[str], None]) -> None:
    """Warn that the owner of the claim folder, if another user, can remove claims. Root does not claim in it."""
    uid = world.folder.owner_uid
    if os.geteuid() != 0 and uid not in (0, os.geteuid()):
        can = f"{world.folder.path} is {user_name(uid)}'s, who can take claims away"
        say(f"the claim folder {can}; {to_give_it_to_root(world.folder.path)}")


def _claim_now(launch: _Launch) -> Claimed:
    clock = launch.world.clock
    until_s = clock.monotonic_s() + _IN_PASSING_S
    pause_s = _SHORTEST_PAUSE_S
    while True:
        late = clock.monotonic_s() > until_s
        launch.entry.minds_passers = not late
        reservations = launch.entry.reservations()
        crowded = any(each.in_passing for each in reservations.values())
        worth_a_look = launch.could_be_our_turn(reservations) or not crowded
        answer = launch.attempt() if worth_a_look else launch.choice(reservations)
        if isinstance(answer, Claimed):
            return answer
        if late or not (answer.gpus or crowded):
            raise launch.refused(answer)
        clock.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _claim_in_turn(launch: _Launch, say: Callable[[str], None]) -> Claimed:
    clock = launch.world.clock
    start_s = clock.monotonic_s()
    until_s = start_s + (launch.request.wait_s or 0.0)
    if launch.is_hopeless():
        launch.request = replace(launch.request, wait_s=None)  # so that the error does not say that we waited
        raise launch.refused(launch.choice(launch.entry.reservations()))
    refuse_to_wait_for_ourselves(launch.world, launch.awaited(), launch.request.wanted)
    watch = FolderWatch(launch.world.folder, clock.sleep)
    try:
        changed = True
        while True:
            for pause_s in _AFTER_A_CHANGE_S if changed else (0.0,):
                clock.sleep(pause_s)
                launch.entry.minds_passers = clock.monotonic_s() - start_s < _IN_PASSING_S
                reservations = launch.entry.reservations()
                our_turn = launch.could_be_our_turn(reservations)
                answer = launch.attempt() if our_turn else None
                if isinstance(answer, Claimed):
                    return answer
            left_s = until_s - clock.monotonic_s()
            if left_s <= 0:
                return _claim_at_last(launch)
            say(_waiting(launch))
            changed = watch.wait(min(left_s, _BUSY_S if our_turn else _CHECK_S), _POLL_S)
    finally:
        watch.close()


def _claim_at_last(launch: _Launch) -> Claimed:
    """Try once more at the end of the wait, or say why not by what is so now: the last look may be hours old."""
    answer = launch.attempt()
    if isinstance(answer, Claimed):
        return answer
    raise launch.refused(answer)


def _waiting(launch: _Launch) -> str:
    count, ahead = launch.request.wanted.count, launch.entry.length_ahead()
    gpus = "1 GPU" if count == 1 else f"{count} GPUs"
    place = f"{ahead} ahead" if ahead else "first in line"
    return f"waiting for {gpus}, {place}{way_to_ask(launch.awaited())}"
