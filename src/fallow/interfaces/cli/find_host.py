"""Find a host for a launch: ask all of them, again and again if the user waits."""

from collections.abc import Iterator, Sequence

from fallow.core.errors import FallowError, NoDaemon, NotEnoughGpus, WrongUsage
from fallow.core.reasons import Reason
from fallow.core.units import duration_for_people
from fallow.engine.machine.world import World
from fallow.engine.remote.ask import Refused
from fallow.engine.remote.choose import Offered, by_suitability, offers
from fallow.engine.remote.ssh import Ssh
from fallow.interfaces.stderr import Stderr

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 10.0


class HostFinder:
    """The hosts that could give what is wanted, the most suitable first."""

    def __init__(
        self,
        world: World,
        ssh: Ssh,
        hosts: Sequence[str],
        words: Sequence[str],
        wait_s: float | None,
        voice: Stderr,
    ) -> None:
        """`words`: the options that select GPUs. `wait_s`: how long to ask again; None asks once."""
        self._world, self._ssh, self._hosts, self._words = world, ssh, hosts, words
        self._wait_s, self._voice = wait_s, voice
        self._refused: dict[str, Refused] = {}

    def candidates(self) -> Iterator[tuple[str, Offered]]:
        """Yield one host after the other until the caller is content; who comes back was refused there."""
        clock = self._world.clock
        until_s = clock.monotonic_s() + (self._wait_s or 0.0)
        pause_s = _FIRST_PAUSE_S
        while True:
            answers = offers(self._world, self._ssh, self._hosts, self._words)
            self._refused = {host: answer for host, answer in answers if isinstance(answer, Refused)}
            could = by_suitability(answers, self._world.chance)
            yield from could
            left_s = until_s - clock.monotonic_s()
            if left_s <= 0 or not any(each.for_lack_of_gpus for each in self._refused.values()):
                return
            self._voice.note(f"waiting for GPUs on {len(self._hosts)} hosts")
            # Each asks at moments of its own, so that many who wait do not come all at once.
            clock.sleep(min(pause_s * (0.5 + self._world.chance() % 1024 / 1024), left_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def was_slower(self, host: str) -> None:
        """Note that somebody else has taken what the host would have given."""
        self._refused[host] = Refused(Reason("host_was_slower"), NotEnoughGpus.exit_code)
        self._voice.detail(f"{host}: {self._refused[host].reason}")

    def nothing_found(self) -> FallowError:
        """Return the error that says of each host why it gave nothing."""
        refused = self._refused
        said = {host: str(each.reason) for host, each in refused.items()}
        if any(each.for_lack_of_gpus for each in refused.values()):
            waited = f" after waiting {duration_for_people(self._wait_s)}" if self._wait_s else ""
            return NotEnoughGpus(f"none of {len(refused)} hosts has enough GPUs now{waited}", said)
        for host, why in said.items():
            self._voice.note(f"{host}: {why}")
        if any(each.exit_code == WrongUsage.exit_code for each in refused.values()):
            return WrongUsage("no host that answers can give that", "ask for less, or name other hosts")
        return NoDaemon("no host can be asked")
