"""Keys are handled one after the other, however fast they come.

Textual sends a key to what has the focus, and from there through a queue for each box around it to the app, which
does what is bound to it. A field takes letters at the first of these stops, so a letter overtakes the backspace or
the Tab before it. Here the app handles each key at once and whole, before it takes the next.

Where no key can come any more, because the terminal is gone, the app ends. Not every terminal sends SIGHUP then:
one in a container does not, and textual would read its end again and again, with a whole core.
"""

import select
import signal

from textual.app import App
from textual.binding import Binding
from textual.events import Event, Key, Paste
from textual.widgets import Input

_STDIN = 0


class Field(Input):
    """A line to write. What is in it at first is marked, so that writing replaces it; Enter is for its screen."""

    BINDINGS = [Binding("enter", "screen.enter", show=False)]  # noqa: RUF012  as textual names it

    def __init__(self, value: str, id: str) -> None:  # noqa: A002  as textual names it
        super().__init__(value, id=id, compact=True, select_on_focus=False)  # the focus comes through a queue too

    def on_mount(self) -> None:
        """Mark what is in it."""
        self.select_all()

    def write(self, text: str) -> None:
        """Write where the cursor is, over what is marked."""
        self.replace(text, *sorted(self.selection))


class KeysInOrder(App[int]):
    """An app in which no key overtakes another. Its widgets know keys by their bindings alone."""

    def on_mount(self) -> None:
        """Look again and again whether keys can still come."""
        if not self.is_headless:
            self.set_interval(1.0, self._end_without_terminal)

    def _end_without_terminal(self) -> None:
        stdin = select.poll()
        stdin.register(_STDIN, 0)  # only hang-up and errors, which are told unasked
        if stdin.poll(0):
            self.exit(int(signal.SIGHUP))

    async def on_event(self, event: Event) -> None:
        """Do what a key means, and only then return."""
        if isinstance(event, Key) and not event.is_forwarded:
            self.app_focus = True
            await self._do(event)
        elif isinstance(event, Paste) and not event.is_forwarded:
            if isinstance(self.focused, Field):
                self.focused.write("".join(event.text.splitlines()[:1]))
        else:
            await super().on_event(event)

    async def _do(self, key: Key) -> None:
        if isinstance(self.focused, Field) and key.is_printable and key.character is not None:
            self.focused.write(key.character)
            return
        bound = self.screen.active_bindings.get(key.key)
        if bound is not None:
            await self.run_action(bound.binding.action, bound.node)
