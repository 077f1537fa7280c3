"""The cluster's loop: look at the engine and the metrics, judge, act, and publish a board; all in its own thread.

The daemon's main thread starts it, takes its board at each tick, and does for it what only the main thread may do
(main_thread.py). It never waits for this thread, so an engine that hangs delays nothing but the cluster.
"""

import gc
from collections.abc import Callable, Sequence
from threading import Event, Thread

from fallow.core.cluster import ClusterBoard, ClusterNode, Readings
from fallow.core.units import printable, shortened
from fallow.core.unknown import Unknown
from fallow.engine.cluster.gpu_seconds import GpuSecondCounter
from fallow.engine.cluster.hands import ClusterHands
from fallow.engine.cluster.judge import ClusterJudge, Protections
from fallow.engine.cluster.main_thread import MainThread
from fallow.engine.cluster.ports import ClusterEngine, EngineLook, Eyes
from fallow.engine.history.run import Run
from fallow.engine.machine.observe import MISSED_LOOKS
from fallow.policies.arbiter import ProtectRules
from fallow.policies.cluster_gate import ClusterRule

_LONGEST_TROUBLE = 300
_GARBAGE = (100_000, 50, 100)


def expect_many_values() -> None:
    """Let Python look for garbage less often: a look makes a million values that all live until the next one."""
    gc.set_threshold(*_GARBAGE)


class ClusterLoop:
    """Looks at one cluster. `look` is called by its own thread, or by a test that runs without one."""

    def __init__(
        self,
        run: Run,
        engine: ClusterEngine,
        eyes: Eyes,
        rules: Sequence[ClusterRule],
        protect: ProtectRules,
        protections: Protections,
        every_s: float,
        background: frozenset[str] = frozenset(),
    ) -> None:
        """`background`: the partitions whose jobs give way to all others."""
        self._engine = engine
        self._eyes = eyes
        self._acts = any(rule.acts for rule in rules)
        self._every_s = every_s
        self._clock = run.world.clock
        self._main = MainThread(run)
        self._judge = ClusterJudge(
            ClusterHands(run, engine, self._main),
            rules,
            protect,
            protections,
            self._clock,
            every_s * MISSED_LOOKS,
            run.world.user,
            background,
        )
        self._counter = GpuSecondCounter(every_s * MISSED_LOOKS)
        self._nodes: tuple[ClusterNode, ...] = ()
        self._told: tuple[str, ...] = ()
        self._ending = Event()
        self._ended = Event()
        self._thread: Thread | None = None
        self._board: ClusterBoard | None = None
        self.when_looked: Callable[[ClusterBoard], None] = lambda _: None
        """Called in the cluster's thread after each look."""

    @property
    def board(self) -> ClusterBoard | None:
        """Return the cluster as it was seen last; None before the first look. Any thread may read it."""
        return self._board

    def start(self) -> None:
        """Begin to look, in a thread of its own."""
        expect_many_values()
        # A daemon thread: an engine that hangs must not keep the program from ending.
        self._thread = Thread(target=self._run, name="fallow-cluster", daemon=True)
        self._thread.start()

    def change(self, rules: Sequence[ClusterRule], protect: ProtectRules) -> None:
        """Judge by these rules from now on; called by the main thread."""
        self._acts = any(rule.acts for rule in rules)
        self._judge.change(rules, protect)

    def turn(self) -> None:
        """Say, count and send what the cluster's thread wants; called by the main thread at each tick."""
        self._main.turn()

    def end(self, wait_s: float = 0.0) -> None:
        """Let the thread end after what it does now, and wait so long at most. Nothing more is stopped by it."""
        self._judge.is_ending = True
        self._ending.set()
        if self._thread is not None and wait_s > 0:
            self._ended.wait(wait_s)
        self._main.turn()

    def look(self) -> ClusterBoard:
        """Look once, judge and act; return the new board. Whatever breaks is a trouble, and nothing is stopped."""
        self._answered = (False, False)
        try:
            troubles = self._look()
        except Exception as error:  # noqa: BLE001  an error while judging is a doubt, and the thread goes on
            why = f"internal error ({type(error).__name__}: {error})"
            self._judge.blind(self._clock.monotonic_s(), Unknown(why))
            troubles = [f"the cluster was not judged: {why}"]
        self._report(troubles)
        board = self._board = ClusterBoard(
            self._engine.engine,
            self._clock.wall_s(),
            self._nodes,
            tuple(state.view() for state in self._judge.states.values()),
            self._pending,
            tuple(troubles),
            self._acts,
            *self._answered,
            self._counter.counted(),
        )
        return board

    _pending: int | Unknown = Unknown("the engine was not asked yet", asked=False)
    _answered = (False, False)  # the engine, the metrics

    def _look(self) -> list[str]:
        readings, seen = self._read(), self._seen()
        self._pending = seen.pending_gpus
        self._answered = (not isinstance(seen.jobs, Unknown), readings.trouble is None)
        troubles: list[str] = []
        name = self._engine.engine.proper_name
        if isinstance(seen.jobs, Unknown):
            troubles.append(f"the jobs of {name} cannot be listed: {seen.jobs.why}")
        if isinstance(seen.nodes, Unknown):
            if seen.nodes.asked:
                troubles.append(f"the nodes of {name} cannot be listed: {seen.nodes.why}")
        else:
            self._nodes = seen.nodes
        if readings.trouble is not None:
            troubles.append(f"the metrics cannot be read: {readings.trouble.why}")
        troubles = [shortened(printable(each), _LONGEST_TROUBLE) for each in troubles]
        trouble = Unknown(troubles[0]) if troubles else None
        if isinstance(seen.jobs, Unknown):
            self._judge.blind(readings.at_s, Unknown(troubles[0]))
        else:
            self._judge.look(seen.jobs, readings, seen.pending_gpus, trouble, self._nodes)
            self._counter.take(readings.at_s, self._judge.states.values(), self._nodes)
        return troubles

    def _seen(self) -> EngineLook:
        try:
            return self._engine.look()
        except Exception as error:  # noqa: BLE001  an engine that breaks has not answered
            broken = Unknown(f"internal error ({type(error).__name__}: {error})")
            return EngineLook(broken, broken, broken)

    def _read(self) -> Readings:
        try:
            return self._eyes.read()
        except Exception as error:  # noqa: BLE001  metrics that cannot be understood were not read
            broken = Unknown(f"internal error ({type(error).__name__}: {error})")
            return Readings(self._clock.monotonic_s(), 0.0, trouble=broken)

    def _report(self, troubles: Sequence[str]) -> None:
        """Report a trouble when it begins, and that it is over."""
        for each in troubles:
            if each not in self._told:
                self._main.say(f"cluster: {each}; nothing is stopped until it can")
        if self._told and not troubles:
            self._main.say("cluster: engine and metrics answer again; counting goes on")
        self._told = tuple(troubles)

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                began_s = self._clock.monotonic_s()
                self.when_looked(self.look())
                self._ending.wait(max(0.0, began_s + self._every_s - self._clock.monotonic_s()))
            self._judge.take_warnings_back()
        finally:
            self._ended.set()
