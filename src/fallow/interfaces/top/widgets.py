"""The table of GPUs and the tree of jobs, which stay where a person left them while what they show changes."""

from collections.abc import Sequence
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import Click
from textual.widgets import DataTable, Tree
from textual.widgets.tree import TreeNode

from fallow.interfaces.top.cells import HEADS, NUMBERS, STALE, Row, cells, widths
from fallow.interfaces.top.jobs import Node

_DOUBLE = 2
_A_MINUTE_S = 60.0
_TWO_TABLES = 160


def _same(one: Text, other: Text) -> bool:
    """Return whether two texts look the same: a Text does not compare the style that it has as a whole."""
    return one == other and one.style == other.style


class GpuTable(DataTable[Text]):
    """A row for each GPU."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "app.details", "More", key_display="⏎"),
        Binding("left", "other_table", show=False),
        Binding("right", "other_table", show=False),
        Binding("home", "scroll_top", show=False),
        Binding("end", "scroll_bottom", show=False),
    ]

    def __init__(self, id: str) -> None:  # noqa: A002  as textual names it
        super().__init__(id=id, cursor_type="row", cell_padding=0, cursor_foreground_priority="renderable")
        self._widths: dict[str, int] = {}
        self._heads: list[str] = []
        self._labels: list[str] = []

    @property
    def label(self) -> str | None:
        """Return the GPU under the cursor; None if there is none."""
        return self._labels[self.cursor_row] if 0 <= self.cursor_row < len(self._labels) else None

    @property
    def labels(self) -> Sequence[str]:
        """Return the GPUs that it shows."""
        return tuple(self._labels)

    def show(self, rows: Sequence[Row], width: int, sort: str) -> None:
        """Show these GPUs in so much room. The cursor stays on its GPU."""
        wide = widths(width)
        last = wide["last"] - 1
        last_s = rows[0].trend.step_s(last) * last if rows else 0.0
        heads = [self._head(name, sort, last_s) for name in wide]
        labels = [row.gpu.label for row in rows]
        if (wide, heads, labels) == (self._widths, self._heads, self._labels):
            self._update(rows)
            return
        under, at, line = self.label, self.cursor_row, self.scroll_offset.y
        self.clear(columns=True)
        for (name, column), head in zip(wide.items(), heads, strict=True):
            aligned = head.rjust(column - 1) if name in NUMBERS else head
            self.add_column(Text(aligned, no_wrap=True), width=column, key=name)
        for row in rows:
            self.add_row(*cells(row, wide), key=row.gpu.label)
        self._widths, self._heads, self._labels = wide, heads, labels
        if labels:
            self.move_cursor(row=labels.index(under) if under in labels else min(at, len(labels) - 1), scroll=False)
            self.scroll_to(y=line, animate=False)

    def _update(self, rows: Sequence[Row]) -> None:
        for row in rows:
            for name, cell in zip(self._widths, cells(row, self._widths), strict=True):
                if not _same(self.get_cell(row.gpu.label, name), cell):
                    self.update_cell(row.gpu.label, name, cell)

    @staticmethod
    def _head(name: str, sort: str, last_s: float) -> str:
        head = HEADS[name]
        if name == "last":
            head += f" {last_s:.0f}s" if last_s < _A_MINUTE_S else f" {last_s // _A_MINUTE_S:.0f}m"
        return f"{head}↓" if name == sort and name != "index" else head

    def action_other_table(self) -> None:
        """Go to the same row of the other table, where there are two."""
        if isinstance(self.parent, GpuTables):
            self.parent.go_over(self)

    async def _on_click(self, event: Click) -> None:
        await super()._on_click(event)
        if event.chain == _DOUBLE and event.style.meta.get("row", -1) >= 0:
            await self.app.run_action("details")


class GpuTables(Horizontal):
    """The GPUs: in one table, or in two side by side where one would scroll and there is room."""

    def __init__(self, id: str) -> None:  # noqa: A002  as textual names it
        super().__init__(GpuTable("left"), GpuTable("right"), id=id)
        self._last = "left"

    def on_descendant_focus(self) -> None:
        """Remember which table was used last."""
        focused = self.app.focused
        if isinstance(focused, GpuTable):
            self._last = focused.id or "left"

    @property
    def label(self) -> str | None:
        """Return the GPU under the cursor of the table that was used last."""
        table = self.query_one(f"#{self._last}", GpuTable)
        return (table if table.display else self.query_one("#left", GpuTable)).label

    def show(self, rows: Sequence[Row], width: int, room: int, sort: str) -> None:
        """Show these GPUs on so many columns and lines."""
        left, right = self.query_one("#left", GpuTable), self.query_one("#right", GpuTable)
        in_two = len(rows) > room and width >= _TWO_TABLES
        first = (len(rows) + 1) // 2 if in_two else len(rows)
        right.display = in_two
        height = max(2, min(first, room) + 1)
        for table in (left, right):
            table.styles.height = height
        scrolls = first > height - 1
        each = (width - 1) // 2 if in_two else width
        left.show(rows[:first], each - 2 * scrolls, sort)
        if in_two:
            right.show(rows[first:], each - 2 * scrolls, sort)

    def go_over(self, here: GpuTable) -> None:
        """Go from one table to the same row of the other, where there are two."""
        left, right = self.query_one("#left", GpuTable), self.query_one("#right", GpuTable)
        if right.display:
            there = right if here is left else left
            there.move_cursor(row=here.cursor_row)
            there.focus()


class JobTree(Tree[Node]):
    """A line for each job, and below it one for each of its processes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "app.details", "More", key_display="⏎"),
        Binding("left", "fold", show=False),
        Binding("right", "unfold", show=False),
        Binding("home", "first", show=False),
        Binding("end", "last", show=False),
    ]

    def __init__(self, id: str) -> None:  # noqa: A002  as textual names it
        super().__init__("", id=id)
        self.show_root = False
        self.auto_expand = False
        self.guide_depth = 3
        self._shape: object = None
        self._folded: set[tuple[object, ...]] = set()

    @property
    def node(self) -> Node | None:
        """Return the line under the cursor; None if there is none."""
        return None if self.cursor_node is None else self.cursor_node.data

    def show(self, nodes: Sequence[Node], *, stale: bool) -> None:
        """Show these jobs. The cursor stays on its job, and what was folded stays so."""
        shape = [(node.key, [each.key for each in node.below]) for node in nodes]
        if shape != self._shape:
            self._rebuild(nodes)
            self._shape = shape
        for branch, node in zip(self.root.children, nodes, strict=True):
            self._relabel(branch, node, stale=stale)
            for leaf, below in zip(branch.children, node.below, strict=True):
                self._relabel(leaf, below, stale=stale)

    def _rebuild(self, nodes: Sequence[Node]) -> None:
        under, at = self.node, self.cursor_line
        self._folded |= {branch.data.key for branch in self.root.children if branch.data and not branch.is_expanded}
        self._folded -= {branch.data.key for branch in self.root.children if branch.data and branch.is_expanded}
        self.clear()
        self.root.expand()
        made = {}
        for node in nodes:
            unfolded = bool(node.below) and node.key not in self._folded
            branch = self.root.add(Text(node.text), node, expand=unfolded, allow_expand=bool(node.below))
            made[node.key] = branch
            made |= {each.key: branch.add_leaf(Text(each.text), each) for each in node.below}
        kept = None if under is None else made.get(under.key)
        if kept is not None:
            self.move_cursor(kept)
        elif made:
            self.cursor_line = max(0, min(at, len(made) - 1))

    def render_label(self, node: TreeNode[Node], base_style: Style, style: Style) -> Text:
        """Return a line that ends in `…` where it does not fit."""
        label = super().render_label(node, base_style, style)
        guides = 0 if node.parent is self.root else self.guide_depth
        label.truncate(max(1, self.scrollable_content_region.width - guides), overflow="ellipsis")
        return label

    @staticmethod
    def _relabel(line: TreeNode[Node], node: Node, *, stale: bool) -> None:
        line.data = node
        label = Text(node.text, STALE if stale else "")
        if not isinstance(line.label, Text) or not _same(line.label, label):
            line.set_label(label)

    def action_fold(self) -> None:
        """Fold the job under the cursor."""
        if self.cursor_node is not None:
            (self.cursor_node if self.cursor_node.allow_expand else self.cursor_node.parent or self.root).collapse()

    def action_unfold(self) -> None:
        """Unfold the job under the cursor."""
        if self.cursor_node is not None:
            self.cursor_node.expand()

    def action_first(self) -> None:
        """Go to the first line."""
        self.cursor_line = 0

    def action_last(self) -> None:
        """Go to the last line."""
        self.cursor_line = self.last_line

    async def _on_click(self, event: Click) -> None:
        await super()._on_click(event)
        if event.chain == _DOUBLE and "line" in event.style.meta:
            await self.app.run_action("details")
