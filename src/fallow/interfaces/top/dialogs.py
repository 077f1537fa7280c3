"""What opens over the screen of `fallow top`: a text to read, a question before a stop, a protection, a filter."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from fallow.core.errors import WrongUsage
from fallow.core.units import printable, span_s
from fallow.core.value import value
from fallow.interfaces.top.keys import Field

_CLOSES: list[BindingType] = [
    Binding("escape", "leave", "Close"),
    Binding("ctrl+c", "app.end", show=False, priority=True),
]

_PROTECT_KEYS = "Enter protects it, Esc closes"


def plain(lines: Iterable[str]) -> Text:
    """Return lines that others may have written, without anything that a terminal or a library reads as more."""
    return Text("\n".join(map(printable, lines)))


class TextScreen(ModalScreen[None]):
    """Lines to read, from the first or from the last on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *_CLOSES,
        Binding("q,enter,w,m,u,question_mark", "leave", "Close"),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
    ]

    def __init__(self, title: str, lines: Sequence[str], *, from_last: bool = False) -> None:
        super().__init__()
        self._head, self._lines, self._from_last = title, lines, from_last

    def compose(self) -> ComposeResult:
        """Yield the box."""
        with Vertical(classes="box"):
            yield Static(plain([self._head]), classes="head")
            with VerticalScroll(id="lines"):
                yield Static(plain(self._lines), id="text")
            yield Static(plain(["Esc closes it; up, down, Home and End scroll"]), classes="hint")

    def on_mount(self) -> None:
        """Show the last lines, if those are what matters."""
        if self._from_last:
            self.query_one("#lines").scroll_end(animate=False)

    def action_leave(self) -> None:
        """Close it."""
        self.dismiss(None)

    def action_scroll(self, lines: int) -> None:
        """Scroll by so many lines."""
        self.query_one("#lines").scroll_relative(y=lines, animate=False)


class StopScreen(ModalScreen[bool]):
    """The question before a stop, below what would be done."""

    AUTO_FOCUS = "#leave"
    BINDINGS: ClassVar[list[BindingType]] = [
        *_CLOSES,
        Binding("y", "agree", "Stop"),
        Binding("n,q", "leave", "Leave alone"),
    ]

    def __init__(self, plan: Sequence[str], count: int) -> None:
        super().__init__()
        self._plan, self._count = plan, count

    def compose(self) -> ComposeResult:
        """Yield the box."""
        with Vertical(classes="box"):
            yield Static(
                plain([f"Stop {'it' if self._count == 1 else f'these {self._count} jobs'}?"]), classes="head"
            )
            with VerticalScroll(id="lines"):
                yield Static(plain(self._plan), id="text")
            with Horizontal(classes="buttons"):
                yield Button("Leave alone (n)", id="leave")
                yield Button("Stop (y)", id="stop", variant="error")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Answer by the button."""
        self.dismiss(event.button.id == "stop")

    def action_agree(self) -> None:
        """Stop it."""
        self.dismiss(True)

    def action_leave(self) -> None:
        """Leave it alone."""
        self.dismiss(False)


@value
class Wish:
    """What a person wants of a protection: one for so long, or those that there are released."""

    for_s: float | None
    """None to release them."""
    why: str = ""


class ProtectScreen(ModalScreen[Wish | None]):
    """For how long something is protected, and why; what protects it now can be released."""

    BINDINGS: ClassVar[list[BindingType]] = [*_CLOSES, Binding("ctrl+r", "release", "Release")]

    def __init__(self, what: str, now: Sequence[str] = (), *, releases: bool = False) -> None:
        """`now`: what protects it now; `releases`: whether that can be released here."""
        super().__init__()
        self._what, self._now, self._releases = what, now, releases
        self._refused: str | None = None

    def compose(self) -> ComposeResult:
        """Yield the box."""
        with Vertical(classes="box"):
            yield Static(plain([f"Protect {self._what} from every rule, and from fallow stop"]), classes="head")
            if self._now:
                yield Static(plain(["it is protected already:", *(f"  {line}" for line in self._now)]), id="now")
            yield Static("for how long: 30m, 2h, 1d")
            yield Field("2h", "for")
            yield Static("why, shown to everybody (may be empty)")
            yield Field("", "why")
            yield Static("", id="wrong", markup=False)
            keys = "Enter protects it, Ctrl-R releases it, Esc closes" if self._releases else _PROTECT_KEYS
            yield Static(keys, classes="hint")

    def on_input_changed(self) -> None:
        """Take back what was said of another duration than the one that is there now."""
        if self.query_one("#for", Field).value != self._refused:
            self.query_one("#wrong", Static).update("")

    def action_enter(self) -> None:
        """Close it with what was written, if that is a duration."""
        field = self.query_one("#for", Field)
        try:
            for_s = span_s(field.value)
        except WrongUsage as error:
            self._refused = field.value
            self.query_one("#wrong", Static).update(plain([str(error)]))
            self.set_focus(field)
            field.select_all()
            return
        self.dismiss(Wish(for_s, self.query_one("#why", Field).value))

    def action_release(self) -> None:
        """Close it, and have what protects it released."""
        if self._releases:
            self.dismiss(Wish(None))

    def action_leave(self) -> None:
        """Close it."""
        self.dismiss(None)


class FilterScreen(ModalScreen[str | None]):
    """The words of the filter."""

    BINDINGS: ClassVar[list[BindingType]] = _CLOSES

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words

    def compose(self) -> ComposeResult:
        """Yield the box."""
        with Vertical(classes="box"):
            yield Static("Show only these users or activities, as: alice idle stuck", classes="head")
            yield Field(self._words, "words")
            if self._words:
                yield Static("writing replaces what is marked; Del clears it", classes="hint")
            yield Static("Enter shows them, and all if it is empty; Esc changes nothing", classes="hint")

    def action_enter(self) -> None:
        """Close it with the words."""
        self.dismiss(self.query_one("#words", Field).value)

    def action_leave(self) -> None:
        """Close it."""
        self.dismiss(None)
