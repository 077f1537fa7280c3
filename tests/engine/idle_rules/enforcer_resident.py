"""Patrols in a process of its own, beside the processes that it looks at: what descends from fallow is never touched.

Orders and answers are pickled. Time is driven, and the cards are as each order says.
"""

import pickle
import subprocess
import sys
from typing import Any

from fallow.core.gpu import Snapshot
from fallow.core.notices import Notice
from fallow.core.protections import parse_target
from fallow.core.value import replace
from fallow.engine.conditions.job import JobConditions
from fallow.engine.config.rules import Idle, Protect
from fallow.engine.history.counters import Tally
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.idle_rules.enforcer import ProcessRules
from fallow.engine.machine.world import World
from fallow.engine.owners.known import KnownOwners
from fallow.engine.park.parking import Parking
from fallow.readers.terminals import Terminals
from tests.harness import ManualClock
from tests.places import REPOSITORY


class Resident:
    """The process, seen from the test."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.idle_rules.enforcer_resident"],
            env={**environ, "PYTHONPATH": str(REPOSITORY)},
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __call__(self, order: str, **what: Any) -> Any:
        """Have it do something; what it answers."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((order, what), self._process.stdin)
        self._process.stdin.flush()
        return pickle.load(self._process.stdout)

    @property
    def pid(self) -> int:
        return self._process.pid

    def leave(self) -> None:
        with self._process:
            self._process.kill()


class Noted:
    """Keeps notices instead of sending them."""

    def __init__(self) -> None:
        self.all: list[Notice] = []

    def note(self, notice: Notice) -> str:
        self.all.append(notice)
        return ""


class House:
    """A machine with its patrol."""

    def begin(
        self,
        environ: dict[str, str],
        rules: list[dict[str, Any]],
        protect: dict[str, Any] | None = None,
        dry_run: bool = False,
        every_s: float = 1.0,
        sessions: str = "/nowhere",
    ) -> None:
        self.clock = self.driven = ManualClock()
        self.world = World(environ, simulate="4xH100", clock=self.clock)
        self.told: list[str] = []
        self.noted = Noted()
        self.tally = Tally()
        self.journal = Journal(self.world.state_folder, self.clock.wall_s, self.told.append)
        report = Report(self.told.append, self.tally, self.noted.note)
        owners = KnownOwners(self.world, self.told.append)
        run = Run(self.world, self.journal, report, dry_run)
        self.patrol = ProcessRules(
            run,
            owners,
            JobConditions(self.world, owners, self.told.append),
            Parking(run, owners),
            Terminals(self.clock, sessions, self.world.environ.get("FALLOW_TERMINALS", "/dev")),
        )
        self.patrol.change(
            [Idle.model_validate(rule) for rule in rules], Protect.model_validate(protect or {}), every_s
        )

    def turn(self, gpus: list[tuple[Any, ...]], every_s: float = 1.0) -> list[str]:
        """One tick for each tuple of cards; what was told."""
        before = len(self.told)
        for cards in gpus:
            self.driven.sleep(every_s)
            at_s, wall_s = self.driven.monotonic_s(), self.driven.wall_s()
            self.patrol.turn(Snapshot("host", simulated=True, at_s=at_s, wall_s=wall_s, gpus=cards))
        return self.told[before:]

    def protect(self, target: str, for_s: float) -> int:
        return self.world.protections.place(parse_target(target), self.clock.wall_s() + for_s, "mine")

    def actions(self) -> dict[tuple[str, str], int]:
        """What was counted."""
        return dict(self.tally.counts().actions)

    def events(self, key: str | None = None) -> list[tuple[str, str, str]]:
        return [(event.kind, event.finding, event.because) for event in reversed(self.journal.last(key, 1000))]

    def steps_by(self, rule: str) -> list[str]:
        """What was done by this rule, as the journal has it."""
        return [event.step for event in self.journal.last(None, 1000) if event.rule == rule]

    def notices(self) -> list[Notice]:
        return [replace(notice) for notice in self.noted.all]

    def jobs(self, gpus: tuple[Any, ...]) -> list[tuple[str, list[int], tuple[str, ...]]]:
        """The jobs on these cards: whose, the pids, the cards."""
        from fallow.engine.idle_rules.gpu_jobs import JobFinder

        found = JobFinder(self.world, KnownOwners(self.world, self.told.append)).jobs(
            Snapshot("host", simulated=True, at_s=0.0, wall_s=0.0, gpus=gpus)
        )
        return [(job.user, sorted(process.pid for process in job.members), job.uuids) for job in found]

    def end(self) -> None:
        self.journal.close()
        self.world.close()


def serve() -> None:
    """Obey until stdin ends."""
    house = House()
    while True:
        try:
            order, what = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answer = getattr(house, order)(**what)
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve()
