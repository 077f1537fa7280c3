"""`fallow top` driven by keys and clicks in this process, on simulated GPUs with real processes."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from textual.pilot import Pilot
from textual.widgets import Static

from fallow.engine.machine.world import World
from fallow.interfaces.cli.main import command_of
from fallow.interfaces.cli.options import common
from fallow.interfaces.cli.top import make
from fallow.interfaces.cli.top_commands import TopCommands
from fallow.interfaces.top.app import Top
from fallow.interfaces.top.widgets import JobTree
from tests.conftest import Fallow
from tests.places import LIMIT_S


class Driver:
    """A person in front of the screen."""

    def __init__(self, app: Top, pilot: Pilot[int], commands: TopCommands) -> None:
        self.app, self.pilot, self.commands = app, pilot, commands

    @property
    def text(self) -> str:
        """All that is on the screen, or in what is open over it."""
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    @property
    def outcome(self) -> str:
        """What the line above the keys says."""
        return str(self.app.screen_stack[0].query_one("#outcome", Static).render())

    @property
    def jobs(self) -> list[str]:
        """The lines of the tree."""
        tree = self.app.screen_stack[0].query_one("#jobs", JobTree)
        nodes = [node for branch in tree.root.children for node in (branch, *branch.children)]
        return [str(node.label) for node in nodes]

    def row(self, label: str) -> str:
        """The line of a GPU."""
        lines = self.text.splitlines()[3:]
        return next(line for line in lines if line.split(" ", 1)[0] == label)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until it is so."""
        by_s = time.monotonic() + LIMIT_S
        while not is_so():
            assert time.monotonic() < by_s, f"it never happened:\n{self.text}\n{self.outcome}"
            await self.pilot.pause(0.02)

    async def sees(self, words: str) -> None:
        """Wait until these words are on the screen, in one line or in several."""
        await self.until(lambda: words in " ".join(self.text.replace("│", " ").split()))


Scenario = Callable[[Driver], Awaitable[None]]


def drive(
    fallow: Fallow, scenario: Scenario, *words: str, size: tuple[int, int] = (80, 24), every: str = "0.1s"
) -> Top:
    """Open the screen as `fallow top WORDS` does, and let a person use it."""
    parser = command_of("top", common())[1]
    world = World(fallow.environ)
    app, commands = make(parser.parse_args(["--every", every, *words]), world)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await scenario(Driver(app, pilot, commands))

    asyncio.run(run())
    return app
