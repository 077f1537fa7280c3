"""What is not documented does not exist: each public name, command, option, key and metric has its sentence."""

import argparse
import ast
import json
import re

import pytest

import fallow
from fallow.core import errors
from fallow.interfaces.cli.main import COMMANDS, command_of
from fallow.interfaces.cli.options import common
from tests.conftest import Fallow
from tests.places import REPOSITORY

REFERENCE = REPOSITORY / "docs" / "reference"
CLI = (REFERENCE / "cli.md").read_text()
README = (REPOSITORY / "README.md").read_text()


def meanings(page: str) -> dict[str, str]:
    """Return what the tables of a page say of each `name` in a first column: the last column of its row."""
    found = {}
    for row in re.findall(r"^\| (`.*) \|$", page, re.MULTILINE):
        first, *_, meaning = re.split(r"(?<!\\) \| ", row)
        found |= {re.split(r"[ (\[]", name)[0]: meaning for name in re.findall(r"`([^`]+)`", first)}
    return found


def without_a_sentence(names: list[str], page: str) -> list[str]:
    """Return those names that no table explains in three words or more."""
    said = meanings(page)
    return [name for name in names if len(said.get(name, "").split()) < 3]


def section(command: str) -> str:
    """Return what the reference says of one command."""
    found = re.search(rf"^## `fallow {command}\b.*?(?=^## |\Z)", CLI, re.MULTILINE | re.DOTALL)
    assert found, f"docs/reference/cli.md has no section on {command}"
    return found[0]


def options(command: str) -> list[str]:
    parser = command_of(command, argparse.ArgumentParser(add_help=False))[1]
    return [name for action in parser._actions for name in action.option_strings if name not in ("-h", "--help")]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_has_its_sentence_and_every_command_is_in_the_readme(command: str) -> None:
    text = section(command)
    first = text.partition("\n\n")[2].partition("\n\n")[0]
    assert len(first.split()) >= 5
    assert "." in first, "a whole sentence below the heading"
    inherited = section("pick") if "Takes the options of `pick`" in text else ""
    assert without_a_sentence(options(command), text + inherited) == []
    assert f"fallow {command}" in README


def test_every_option_that_all_commands_take_has_its_sentence() -> None:
    names = [name for action in common()._actions for name in action.option_strings]
    assert without_a_sentence(names, CLI) == []


def test_every_public_name_has_its_sentence() -> None:
    names = [name for name in fallow.__all__ if name != "__version__"]
    assert without_a_sentence(names, (REFERENCE / "python.md").read_text()) == []


def test_every_key_of_the_config_has_its_sentence() -> None:
    page = (REFERENCE / "config.md").read_text()
    schema = json.loads((REFERENCE / "fallow.schema.json").read_text())
    for key, part in schema["properties"].items():
        kind = (part.get("items") or part)["$ref"].rpartition("/")[2]
        found = re.search(rf"^## `\[+{key}\]+`.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
        assert found, f"docs/reference/config.md has no section on {key}"
        assert without_a_sentence(list(schema["$defs"][kind]["properties"]), found[0]) == [], key


def test_every_metric_has_its_sentence() -> None:
    source = (REPOSITORY / "src" / "fallow" / "interfaces" / "render" / "metrics.py").read_text()
    constants = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    names = {text for text in constants if isinstance(text, str) and re.fullmatch(r"fallow_[a-z_]+", text)}
    assert len(names) > 20
    page = (REFERENCE / "metrics.md").read_text()
    said = meanings(page)
    counters = {name for name in names if f"{name}_total" in said}
    assert without_a_sentence([f"{name}_total" if name in counters else name for name in names], page) == []


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


def test_every_page_can_be_reached_from_the_readme() -> None:
    """Decisions are listed by their folder."""
    reached, waiting = set(), [REPOSITORY / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        links = re.findall(r"\]\(([^)#:\s]+)", page.read_text())
        waiting += [(page.parent / target).resolve() for target in links]
    pages = {path for path in (REPOSITORY / "docs").rglob("*.md") if path.parent.name != "decisions"}
    assert pages - reached == set()


def test_a_row_is_found_by_each_name_in_its_first_column() -> None:
    row = "| `-n N`, `--count N` | how many GPUs |\n| `--format a\\|b` | which format it has |\n"
    assert meanings(row) == {"-n": "how many GPUs", "--count": "how many GPUs", "--format": "which format it has"}
    assert without_a_sentence(["-n", "--none"], row) == ["--none"]
