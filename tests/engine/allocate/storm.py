"""Many launches of several users at once: `python -m tests.engine.allocate.storm FOLDER LAUNCHES KILLS SEED`.

Each launch is a forked process that becomes its user, claims one or two of 8 cards, and becomes its job: `flock`
locks a witness file for each card, and fails with 9 if another job has it. The kernel closes low descriptors first,
so a job that is killed gives up its witness before its claim.
"""

import json
import os
import pathlib
import random
import signal
import sys
from collections import Counter
from collections.abc import Sequence

import inotify_simple  # noqa: F401  loaded before root is given up

from fallow.actuators.claims.folder import ClaimFolder
from fallow.core.errors import NotEnoughGpus
from fallow.core.gpu import Gpu, Memory, Snapshot
from fallow.core.ports import Depth
from fallow.engine.allocate.claim import claim
from fallow.engine.allocate.search import FOREVER, Request
from fallow.engine.machine.world import World
from fallow.policies.pick import Wanted

CARDS = [f"GPU-{index}" for index in range(8)]
USERS = (0, 1000, 65534) if os.geteuid() == 0 else (os.geteuid(),)
AT_ONCE = 24
CLASH, TOO_FEW = 9, 75
_EMPTY = Memory(2**30, 0, 2**30, 0)


class FreeCards:
    """A driver that sees no process, so nothing but the claims keeps two launches apart."""

    is_free = True

    def look(self, depth: Depth) -> Snapshot:
        gpus = tuple(Gpu(index, uuid, "H100", 0.0, 0.0, _EMPTY, (), 30) for index, uuid in enumerate(CARDS))
        return Snapshot("here", False, 0.0, 0.0, gpus)

    def links(self, gpus: Sequence[Gpu]) -> dict[frozenset[str], int]:
        return {}

    def describe(self, snapshot: Snapshot) -> Snapshot:
        return snapshot

    def close(self) -> None:
        """Nothing is open."""


def launch(folder: pathlib.Path, uid: int, count: int, wait_s: float | None) -> None:
    """Become the user, claim, and become the job."""
    os.umask(0o077)
    if uid != os.geteuid():
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    world = World({"FALLOW_CLAIM_DIR": str(folder / "claims")})
    world.gpu_reader = FreeCards()
    try:
        claimed = claim(world, Request(Wanted(count), wait_s=wait_s), program="storm")
    except NotEnoughGpus:
        os._exit(TOO_FEW)
    command = ["/bin/sleep", "0.02"]
    for gpu, held in zip(claimed.gpus, claimed.claims, strict=True):
        held.hand_to_job()
        command = ["/usr/bin/flock", "-n", "-E", str(CLASH), str(folder / str(gpu.uuid)), *command]
    os.execv(command[0], command)


def storm(folder: pathlib.Path, launches: int, kills: int, seed: int) -> Counter[int]:
    """Start them all, a few at once, kill some at random, and return how often each exit code came."""
    dice = random.Random(seed)
    kills_after = set(dice.sample(range(launches), kills))
    alive: set[int] = set()
    codes: Counter[int] = Counter()
    for number in range(launches + 1):
        while alive and (len(alive) >= AT_ONCE or number == launches):
            pid, status = os.wait()
            alive.remove(pid)
            codes[os.waitstatus_to_exitcode(status)] += 1
        if number == launches:
            break
        uid, count, wait_s = dice.choice(USERS), dice.choice((1, 1, 1, 2)), dice.choice((FOREVER, FOREVER, None))
        pid = os.fork()
        if pid == 0:
            try:
                launch(folder, uid, count, wait_s)
            finally:
                os._exit(1)
        alive.add(pid)
        if number in kills_after:
            os.kill(dice.choice(sorted(alive)), signal.SIGKILL)
    return codes


def main() -> None:
    """Prepare the files, and print the exit codes."""
    folder, launches, kills, seed = pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:])
    ClaimFolder(str(folder / "claims")).close()
    for card in CARDS:
        (folder / card).touch()
        (folder / card).chmod(0o666)
    print(json.dumps(storm(folder, launches, kills, seed)))


if __name__ == "__main__":
    main()
