"""The reference names each command, option, public name, key and metric, and links lead somewhere."""

import argparse
import ast
import json
import re

import pytest

import fallow
from fallow.core import errors
from fallow.core.reasons import SENTENCES
from fallow.interfaces.cli.main import COMMANDS, command_of
from fallow.interfaces.cli.options import common
from tests.conftest import Fallow
from tests.places import REPOSITORY

REFERENCE = REPOSITORY / "docs" / "reference"
CLI = (REFERENCE / "cli.md").read_text()


def named(page: str) -> set[str]:
    """Return each `name` in the first column of a table of a page."""
    rows = re.findall(r"^\| (`.*) \|$", page, re.MULTILINE)
    first = (re.split(r"(?<!\\) \| ", row)[0] for row in rows)
    return {re.split(r"[ (\[]", name)[0] for column in first for name in re.findall(r"`([^`]+)`", column)}


def section(command: str) -> str:
    """Return what the reference says of one command."""
    found = re.search(rf"^## `fallow {command}\b.*?(?=^## |\Z)", CLI, re.MULTILINE | re.DOTALL)
    assert found, f"docs/reference/cli.md has no section on {command}"
    return found[0]


def options(command: str) -> list[str]:
    parser = command_of(command, argparse.ArgumentParser(add_help=False))[1]
    return [name for action in parser._actions for name in action.option_strings if name not in ("-h", "--help")]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_is_in_the_reference(command: str) -> None:
    text = section(command)
    inherited = section("pick") if "Takes the options of `pick`" in text else ""
    assert set(options(command)) - named(text + inherited) == set()


def test_every_option_that_all_commands_take_is_in_the_reference() -> None:
    names = {name for action in common()._actions for name in action.option_strings}
    assert names - named(CLI) == set()


def test_every_public_name_is_in_the_reference() -> None:
    assert set(fallow.__all__) - {"__version__"} - named((REFERENCE / "python.md").read_text()) == set()


def test_every_metric_is_in_the_reference() -> None:
    source = (REPOSITORY / "src" / "fallow" / "interfaces" / "render" / "metrics.py").read_text()
    constants = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    names = {text for text in constants if isinstance(text, str) and re.fullmatch(r"fallow_[a-z_]+", text)}
    assert len(names) > 20
    said = named((REFERENCE / "metrics.md").read_text())
    assert {name for name in names if name not in said and f"{name}_total" not in said} == set()


def test_every_option_has_help() -> None:
    for command in COMMANDS:
        parser = command_of(command, common())[1]
        assert [action.dest for action in parser._actions if not action.help] == []
        assert parser.description
        assert argparse.ArgumentParser.format_help(parser)


def test_every_exit_code_is_in_the_reference() -> None:
    def family(kind: type[errors.FallowError]) -> set[int]:
        return {kind.exit_code}.union(*(family(below) for below in kind.__subclasses__()))

    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", CLI, re.MULTILINE)}
    assert family(errors.FallowError) <= listed
    tree = errors.__doc__ or ""
    assert all(re.search(rf"\b{code}\b", tree) for code in family(errors.FallowError)), (
        "the tree at the head of errors.py"
    )


def test_every_variable_is_in_the_reference() -> None:
    trees = (ast.parse(path.read_text()) for path in (REPOSITORY / "src").rglob("*.py"))
    constants = (node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    texts = (text for text in constants if isinstance(text, str))
    used = {name for text in texts for name in re.findall(r"\bFALLOW_[A-Z_]+", text)}
    assert len(used) > 5
    assert {name for name in used if f"`{name}`" not in CLI} == set()


def test_every_field_of_the_json_is_in_the_reference(simulated: Fallow) -> None:
    text = (REFERENCE / "json.md").read_text()
    status = json.loads(simulated("status", "--json").stdout)
    assert [name for name in (*status, *status["gpus"][0]) if f"`{name}`" not in text] == []


def test_every_kind_of_reason_is_in_the_reference() -> None:
    text = (REFERENCE / "json.md").read_text()
    assert [kind for kind in SENTENCES if f"`{kind}`" not in text] == []


def anchors(text: str) -> set[str]:
    """Return the anchors that the headings of a page get."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_the_documents_lead_somewhere() -> None:
    pages = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
    for page in pages:
        for target, anchor in re.findall(r"\]\(([^)#:\s]*)#?([^)\s:]*)\)", page.read_text()):
            leads_to = page.parent / target if target else page
            assert leads_to.exists(), f"{page.name} -> {target}"
            if anchor:
                assert anchor in anchors(leads_to.read_text()), f"{page.name} -> {target}#{anchor}"
