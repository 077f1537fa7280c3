"""No sentence is ever parsed back: what matters about a reason is a value beside its words."""

import ast
import pathlib
from collections.abc import Iterator

from tests.conftest import REPOSITORY

SOURCE = REPOSITORY / "src" / "fallow"
SENTENCES = {"because", "reason", "refused", "sentence", "sentences", "why", "words", "told", "complaint"}
TAKES_APART = {"startswith", "endswith", "partition", "rpartition", "split", "rsplit", "find", "index"} | {
    "removeprefix",
    "removesuffix",
    "replace",
}
# `words` of a command line are a list of a person's words, and no sentence of ours.
COMMAND_LINES = {"compat/selecting_command.py", "interfaces/cli/main.py", "readers/proc.py"}


def name_of(node: ast.expr) -> str:
    """The last name of `decision.because`, `str(error.why)` or `because`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=ast.Name(id="str"), args=[inner]):
            return name_of(inner)
        case _:
            return ""


def parsed_back(tree: ast.AST) -> Iterator[str]:
    """Where a sentence is looked into."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(ops=[ast.In() | ast.NotIn()], left=ast.Constant(value=str()), comparators=[of]):
                pass
            case ast.Call(func=ast.Attribute(attr=method, value=of)) if method in TAKES_APART:
                pass
            case _:
                continue
        if name_of(of) in SENTENCES or (isinstance(of, ast.Call) and name_of(of) in {"error"}):
            yield f"{node.lineno}: {ast.unparse(node)}"


def test_no_sentence_is_parsed_back() -> None:
    """F13"""
    found = {
        f"{path.relative_to(SOURCE)}:{place}"
        for path in SOURCE.rglob("*.py")
        if str(path.relative_to(SOURCE)) not in COMMAND_LINES
        for place in parsed_back(ast.parse(path.read_text()))
    }
    assert found == set()


def test_no_complaint_about_a_config_hides_its_way_out_in_a_sentence() -> None:
    """F13: what would be right is a value of its own."""
    hidden = [
        f"{path.name}:{node.lineno}"
        for path in (SOURCE / "engine" / "config").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and name_of(node.func) in {"ValueError", "Complaint"}
        and node.args
        and "; " in ast.unparse(node.args[0])
    ]
    assert hidden == []


def test_this_test_sees_what_it_looks_for(tmp_path: pathlib.Path) -> None:
    sample = """
if "paused" in decision.because: pass
sentence.partition("; ")
str(error.why).startswith("held by")
name.startswith("-")
"""
    assert [place.partition(":")[0] for place in parsed_back(ast.parse(sample))] == ["2", "3", "4"]
