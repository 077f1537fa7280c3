"""The screen of `fallow top`. It decides nothing: looks come from `look.py`, and what keys do from `commands.py`.

Three threads stand beside it, so that the screen never waits: one looks, one answers questions, one acts. What they
have found comes back as messages.
"""

import asyncio
import signal
from collections.abc import Callable, Sequence
from operator import call
from queue import SimpleQueue
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Static

from fallow.core.errors import FallowError
from fallow.core.gpu_status import GpuStatus
from fallow.core.ports import Clock
from fallow.core.units import duration_for_people, printable
from fallow.engine.machine.background import Background
from fallow.interfaces.top import details
from fallow.interfaces.top.cells import STALE, Row, Trend
from fallow.interfaces.top.commands import Commands
from fallow.interfaces.top.dialogs import FilterScreen, ProtectScreen, StopScreen, TextScreen, Wish, plain
from fallow.interfaces.top.jobs import Node, job_tree
from fallow.interfaces.top.keys import Field, KeysInOrder
from fallow.interfaces.top.look import Look, Source
from fallow.interfaces.top.messages import Answered, Asked, Looked, LookFailed, Said
from fallow.interfaces.top.rows import SORTS, Filter, second_line, shown_gpus, summary
from fallow.interfaces.top.widgets import GpuTables, JobTree

_OLD_S = 10.0
_MISSED_LOOKS = 3
_AROUND = 5  # the two lines above, the head of the jobs, the outcome, the keys
_JOBS_AT_LEAST = 5
_WEEK_S = 7 * 86400.0
_TOLD_FOR_S = 20.0  # then the line above the keys, which takes room from the jobs, is empty again
_REPAINT_S = 5.0  # a notice to this terminal, as `wall` and rules write them, lands on the screen
_ENDED_BY = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Top(KeysInOrder):
    """All GPUs and the jobs on them. It returns the signal that ended it, or 0."""

    TITLE = "fallow top"
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "top.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "protect", "Protect"),
        Binding("s", "stop", "Stop"),
        Binding("w", "why", "Why"),
        Binding("m", "decided('mine')", "My stops"),
        Binding("W", "decided", show=False),
        Binding("u", "waste", "Waste"),
        Binding("j", "jobs", show=False),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("o", "order", "Order"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "leave", "End"),
        Binding("ctrl+l", "repaint", show=False),
        Binding("ctrl+c", "end", show=False, priority=True),
    ]

    def __init__(
        self,
        source: Source,
        commands: Commands,
        clock: Clock,
        first: Look,
        *,
        every_s: float,
        gpus: str | None = None,
        only: Filter | None = None,
        sort: str = "index",
        visible_devices: str | None = None,
    ) -> None:
        super().__init__()
        self._source, self._commands, self._clock = source, commands, clock
        self._look, self._every_s, self._gpus = first, every_s, gpus
        self._only, self._sort = only or Filter(), sort
        self._visible_devices = visible_devices
        self._trend = Trend()
        self._trend.add(first)
        self._failed: str | None = None
        self._one_gpu, self._told_s = False, 0.0
        self._looks: Background[None] = Background("looks", self._take_look, self._say)
        self._questions: Background[Callable[[], None]] = Background("questions", call, self._say)
        self._acts: Background[Callable[[], None]] = Background("acts", call, self._say)

    def compose(self) -> ComposeResult:
        """Yield what is on the screen."""
        yield Static(id="summary", markup=False)
        yield Static(id="source", markup=False)
        yield GpuTables("gpus")
        yield Static(id="jobs_head", markup=False)
        yield JobTree("jobs")
        yield Static(id="outcome", markup=False)
        yield Footer(compact=True)

    def on_mount(self) -> None:
        """Begin to look."""
        for number in _ENDED_BY:
            asyncio.get_running_loop().add_signal_handler(number, self.exit, int(number))
        self.query_one("#left").focus()
        self.show()
        self.set_interval(self._every_s, self._look_again)
        self.set_interval(1.0, self._show_age)
        self.set_interval(_REPAINT_S, self.action_repaint)

    # ---- looks

    def _look_again(self) -> None:
        if self._looks.is_idle:
            self._looks.give(None)

    def _take_look(self, _: None) -> None:
        try:
            self.post_message(Looked(self._source.look()))
        except FallowError as error:
            self.post_message(LookFailed(str(error)))

    def on_looked(self, message: Looked) -> None:
        """Show a new look."""
        self._look, self._failed = message.look, None
        self._trend.add(message.look)
        self.show()

    def on_look_failed(self, message: LookFailed) -> None:
        """Keep the last look, and say that it is old, and why."""
        self._failed = message.why
        self.show()

    def on_resize(self) -> None:
        """Lay everything out for the new size."""
        self.call_after_refresh(self.show)

    def _show_age(self) -> None:
        if self.is_stale:
            self.show()
        if self._acts.is_idle and self._clock.monotonic_s() - self._told_s > _TOLD_FOR_S:
            self._tell("")

    @property
    def age_s(self) -> float:
        """Return how old what is shown is."""
        return max(0.0, self._clock.monotonic_s() - self._look.at_s)

    @property
    def is_stale(self) -> bool:
        """Return whether what is shown may no longer be so."""
        return self._failed is not None or self.age_s > max(_OLD_S, _MISSED_LOOKS * self._every_s)

    @property
    def _ground(self) -> Screen[object] | None:
        """Return the screen below all dialogs; none once this ends: what is on it goes before the timers do."""
        return self.screen_stack[0] if self.is_running and self.screen_stack else None

    def show(self) -> None:
        """Draw the last look."""
        if (screen := self._ground) is None:
            return
        stale, look = self.is_stale, self._look
        head = STALE if stale else "bold yellow" if look.status.simulated else "bold"
        said = summary(look.status, self._visible_devices, self.size.width)
        screen.query_one("#summary", Static).update(Text(said, head))
        screen.query_one("#source", Static).update(self._source_line(stale=stale))
        gpus = self._shown()
        rows = [Row(each, look, self._trend, stale) for each in gpus]
        room = self.size.height - _AROUND - _JOBS_AT_LEAST - 1
        screen.query_one("#gpus", GpuTables).show(rows, self.size.width, room, self._sort)
        scope = [each for each in gpus if each.label == self.gpu_label] if self._one_gpu else gpus
        where = f"GPU {self.gpu_label}" if self._one_gpu else "all GPUs shown"
        nodes = job_tree(look, scope, self._only)
        screen.query_one("#jobs_head", Static).update(plain([f"jobs on {where}{'' if nodes else ': none'}"]))
        screen.query_one("#jobs", JobTree).show(nodes, stale=stale)

    def _shown(self) -> list[GpuStatus]:
        try:
            return shown_gpus(self._look, self._gpus, self._only, self._sort)
        except FallowError:  # a GPU that was named is gone
            return shown_gpus(self._look, None, self._only, self._sort)

    def _source_line(self, *, stale: bool) -> Text:
        look = self._look
        if stale:
            why = f": {self._failed}" if self._failed else ""
            return Text(printable(f"as it was {duration_for_people(round(self.age_s))} ago{why}"), "bold red")
        chosen = [f"by {self._sort}"] if self._sort != "index" else []
        chosen += [f"only {self._only}"] if str(self._only) else []
        have, said = second_line(look, self._visible_devices, self.size.width, chosen)
        return Text.assemble((printable(have), "bold green"), printable(said))

    # ---- what is selected

    @property
    def gpu_label(self) -> str | None:
        """Return the GPU under the cursor, as the screen calls it."""
        return self.screen_stack[0].query_one("#gpus", GpuTables).label

    @property
    def _gpu(self) -> GpuStatus | None:
        """Return the GPU under the cursor."""
        return next((gpu for gpu in self._look.status.gpus if gpu.label == self.gpu_label), None)

    @property
    def _node(self) -> Node | None:
        """Return the selected job, if the cursor is among the jobs."""
        tree = self.screen_stack[0].query_one("#jobs", JobTree)
        return tree.node if self.focused is tree else None

    def _subjects(self) -> tuple[str, ...]:
        """Return what is selected, as the commands call it."""
        if isinstance(self.focused, JobTree):
            return () if self._node is None else self._node.subjects
        return () if self._gpu is None else (self._gpu.label,)

    def _in_words(self, subjects: Sequence[str]) -> str:
        if isinstance(self.focused, JobTree):
            return ", ".join(subject.replace("pid:", "pid ") for subject in subjects)
        return f"GPU {subjects[0]}"

    # ---- keys

    async def action_details(self) -> None:
        """Show all that is known of what is selected."""
        node, gpu, look = self._node, self._gpu, self._look
        if node is not None:
            on = [each for each in look.status.gpus if each.label in node.gpus]
            await self.push_screen(TextScreen("the job", details.job_lines(node, look, on)))
        elif gpu is not None:
            await self.push_screen(TextScreen(f"GPU {gpu.label}", details.gpu_lines(gpu, look)))

    async def action_help(self) -> None:
        """Show what the keys do."""
        await self.push_screen(TextScreen("fallow top: keys and words", details.HELP))

    def action_why(self) -> None:
        """Explain what is selected, as `fallow why` does."""
        subjects = self._subjects()
        if not subjects:
            self._tell("there is nothing to explain here")
        else:
            self._ask(f"why: {self._in_words(subjects[:1])}", lambda: self._commands.why(subjects[0]), from_last=True)

    def action_decided(self, subject: str = "") -> None:
        """Show the last decision, and what was done; of `mine`, which jobs of this user were stopped, and why."""
        title = "your jobs, and which were stopped" if subject else "the last decision, and what was done"
        self._ask(title, lambda: self._commands.why(subject or None), from_last=True)

    def action_waste(self) -> None:
        """Show who left GPUs idle this week, and what that cost."""
        self._ask("who wasted most in the last 7 days", lambda: self._commands.waste(_WEEK_S))

    def _ask(self, title: str, question: Callable[[], Sequence[str]], *, from_last: bool = False) -> None:
        self._tell("asking …")
        self._questions.give(lambda: self._post(lambda: Answered(title, question(), from_last=from_last)))

    def _post(self, find: Callable[[], Message]) -> None:
        """Post what one of the threads finds, or why it cannot."""
        try:
            self.post_message(find())
        except FallowError as error:
            self.post_message(Said(str(error)))

    def on_answered(self, message: Answered) -> None:
        """Show an answer."""
        self._tell("")
        self.push_screen(TextScreen(message.title, message.lines, from_last=message.from_last))

    async def action_protect(self) -> None:
        """Protect what is selected, for as long as a person says."""
        subjects = self._subjects()
        if not subjects:
            self._tell("there is nothing to protect here")
            return

        here = self._look
        labels = self._node.gpus if self._node is not None else subjects
        now = details.protecting(here, [gpu for gpu in here.status.gpus if gpu.label in labels], subjects)
        ids = details.released_here(now)

        def protect(wish: Wish | None) -> None:
            if wish is not None and wish.for_s is None:
                self._act(lambda: self._commands.release(ids))
            elif wish is not None:
                self._act(lambda: self._commands.protect(subjects, wish.for_s or 0.0, wish.why))

        lines = details.protection_lines(now, here)
        await self.push_screen(ProtectScreen(self._in_words(subjects), lines, releases=bool(ids)), protect)

    def action_stop(self) -> None:
        """Plan a stop of what is selected; a person is asked before anything is done."""
        subjects = self._subjects()
        if not subjects:
            self._tell("there is no job to stop here")
        else:
            self._act(lambda: self._commands.stop(subjects, self._agreed, self._say))

    def _act(self, act: Callable[[], Sequence[str]]) -> None:
        if not self._acts.is_idle:
            self._tell("something is being done already; wait until it has ended")
            return
        self._tell("…")
        self._acts.give(lambda: self._post(lambda: Said("; ".join(act()))))

    def _say(self, words: str) -> None:
        self.post_message(Said(words))

    def _agreed(self, plan: Sequence[str], count: int) -> bool:
        """Ask the person in front of the screen, from the thread that acts, and wait for the answer."""
        answer: SimpleQueue[bool] = SimpleQueue()
        self.post_message(Asked(plan, count, answer))
        return answer.get()

    def on_asked(self, message: Asked) -> None:
        """Show what would be done, and ask; not over a line that a person writes, whose letters would answer."""
        if isinstance(self.focused, Field):
            message.answer.put(False)
        else:
            self.push_screen(StopScreen(message.plan, message.count), lambda agreed: message.answer.put(bool(agreed)))

    def on_said(self, message: Said) -> None:
        """Say what is done, or what came of it."""
        self._tell(message.words)
        self._look_again()

    def action_jobs(self) -> None:
        """Show the jobs of all GPUs, or of the selected one."""
        self._one_gpu = not self._one_gpu
        self.show()

    def on_data_table_row_highlighted(self) -> None:
        """Show the jobs of the GPU that is selected now."""
        if self._one_gpu:
            self.call_after_refresh(self.show)

    async def action_filter(self) -> None:
        """Let a person write which users and activities are shown."""

        def change(words: str | None) -> None:
            if words is not None:
                self._only = Filter.parse(words)
                self.show()

        await self.push_screen(FilterScreen(str(self._only)), change)

    def action_order(self) -> None:
        """Take the next order."""
        orders = list(SORTS)
        self._sort = orders[(orders.index(self._sort) + 1) % len(orders)]
        self.show()

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the column whose head was clicked."""
        if event.column_key.value in SORTS:
            self._sort = event.column_key.value
            self.show()

    def action_repaint(self) -> None:
        """Draw all of the screen again: something else has written to the terminal."""
        self.refresh()

    def action_leave(self) -> None:
        """End, unless a stop is under way."""
        if self._acts.is_idle:
            self.exit(0)
        else:
            self._tell("a stop is under way; wait for it, or end by Ctrl-C and leave it as it is")

    def action_end(self) -> None:
        """End at once."""
        self.exit(0)

    def _tell(self, words: str) -> None:
        self._told_s = self._clock.monotonic_s()
        if (screen := self._ground) is not None:
            screen.query_one("#outcome", Static).update(plain([words]))
