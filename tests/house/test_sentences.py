"""No message is parsed back: a decision compares values, never the sentences that are shown to people."""

import ast
import pathlib
from collections.abc import Iterator

import pytest

from tests.places import REPOSITORY

SOURCE = REPOSITORY / "src" / "fallow"
SENTENCES = {
    *("because", "complaint", "message", "reason", "refused", "reported", "sentence", "sentences", "why"),
    "words",
}
LOOKS_INTO = {
    "startswith",
    "endswith",
    "partition",
    "rpartition",
    "split",
    "rsplit",
    "splitlines",
    "find",
    "index",
} | {
    *("rfind", "rindex", "count", "removeprefix", "removesuffix", "replace"),
}
SEARCHES = {"match", "search", "fullmatch", "findall", "finditer", "split"}
# Here `words` is the list of arguments of a command line, not a sentence.
COMMAND_LINES = {"compat/selecting_command.py", "interfaces/cli/main.py", "readers/proc.py"}
# tomllib, before Python 3.14, says where a mistake is only in its message; argparse words its own.
OTHERS_MESSAGES = {"compat/gpu_mon.py", "engine/config/parse_toml.py", "interfaces/cli/options.py"}
# They print what `fallow fill` and `fallow run` say in the words of the older tools, and decide nothing by them.
TRANSLATIONS = {"compat/idle_timeout.py", "compat/stress.py"}


def is_sentence(node: ast.expr) -> bool:
    """Tell whether an expression is `decision.because`, `str(error.why)`, `str(error)` or `because`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in SENTENCES
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id="error")]):
            return True
        case ast.Call(func=ast.Name(id="str"), args=[inner]):
            return is_sentence(inner)
        case _:
            return False


def is_list_of_words(node: ast.expr) -> bool:
    """Tell whether an expression is `words`, which elsewhere is a list of arguments."""
    return isinstance(node, ast.Name) and node.id == "words"


def has_text(node: ast.expr) -> bool:
    """Tell whether an expression is a text or a list of texts. Comparing with the empty text parses nothing."""
    match node:
        case ast.Constant(value=str(text)):
            return text != ""
        case ast.JoinedStr():
            return True
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return any(has_text(part) for part in parts)
        case _:
            return False


def parsed_back(tree: ast.AST) -> Iterator[str]:
    """Yield each place where a sentence is compared with a text, searched or taken apart."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=[right]) if (is_sentence(left) and has_text(right)) or (
                has_text(left) and is_sentence(right)
            ):
                yield f"{node.lineno}: {ast.unparse(node)}"
            case ast.Call(func=ast.Attribute(attr=method, value=of)) if method in LOOKS_INTO and is_sentence(of):
                yield f"{node.lineno}: {ast.unparse(node)}"
            case ast.Call(func=ast.Attribute(attr=method), args=[*_, last]) if method in SEARCHES and is_sentence(
                last
            ):
                yield f"{node.lineno}: {ast.unparse(node)}"
            case ast.Subscript(value=of, slice=ast.Slice()) if is_sentence(of) and not is_list_of_words(of):
                yield f"{node.lineno}: {ast.unparse(node)}"
            case ast.Match(subject=of, cases=cases) if is_sentence(of) and any(
                isinstance(case.pattern, ast.MatchValue) and has_text(case.pattern.value) for case in cases
            ):
                yield f"{node.lineno}: match {ast.unparse(of)}"


@pytest.mark.more
def test_no_sentence_is_parsed_back() -> None:
    """F13"""
    found = {
        f"{path.relative_to(SOURCE)}:{place}"
        for path in SOURCE.rglob("*.py")
        if str(path.relative_to(SOURCE)) not in COMMAND_LINES | OTHERS_MESSAGES | TRANSLATIONS
        for place in parsed_back(ast.parse(path.read_text()))
    }
    assert found == set()


def test_this_test_sees_what_it_looks_for(tmp_path: pathlib.Path) -> None:
    sample = """
if "paused" in decision.because: pass
sentence.partition("; ")
str(error.why).startswith("held by")
if decision.because == "paused": pass
if decision.because in ("paused", "armed"): pass
re.search("held by (.*)", event.because)
first = reason[:5]
match reason:
    case "paused": pass
if "No such file" in str(error): pass
name.startswith("-")
if decision.because == "": pass
if finding == "paused": pass
print(f"{subject}: {because}")
"""
    lines = {int(place.partition(":")[0]) for place in parsed_back(ast.parse(sample))}
    assert lines == {2, 3, 4, 5, 6, 7, 8, 9, 11}
