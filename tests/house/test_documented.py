"""What is not documented does not exist: verbs, options, exit codes, variables, and the README's own examples."""

import argparse
import importlib
import os
import pathlib
import re
import subprocess

import pytest

from fallow.core import errors
from fallow.interfaces.cli.main import VERBS
from fallow.interfaces.cli.options import common
from tests.conftest import REPOSITORY, Fallow

CLI = (REPOSITORY / "docs" / "reference" / "cli.md").read_text()
README = (REPOSITORY / "README.md").read_text()


def section(verb: str) -> str:
    """What the reference says of one verb."""
    found = re.search(rf"^## `fallow {verb}\b.*?(?=^## |\Z)", CLI, re.MULTILINE | re.DOTALL)
    assert found, f"docs/reference/cli.md has no section on {verb}"
    return found[0]


def options(verb: str) -> list[str]:
    parser = importlib.import_module(f"fallow.interfaces.cli.{verb}").parser([])
    return [name for action in parser._actions for name in action.option_strings if name not in ("-h", "--help")]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_and_option_is_in_the_reference_and_every_verb_in_the_readme(verb: str) -> None:
    text = section(verb) + (section("pick") if "Takes the options of `pick`" in section(verb) else "")
    assert [name for name in options(verb) if not re.search(rf"`{re.escape(name)}(?![\w-])", text)] == []
    assert f"fallow {verb}" in README


def test_options_that_are_everywhere_are_in_the_reference() -> None:
    names = [name for action in common()._actions for name in action.option_strings]
    assert [name for name in names if f"`{name}" not in CLI] == []


def test_every_option_has_help() -> None:
    for verb in VERBS:
        parser = importlib.import_module(f"fallow.interfaces.cli.{verb}").parser([common()])
        assert [action.dest for action in parser._actions if not action.help] == []
        assert parser.description
        assert argparse.ArgumentParser.format_help(parser)


def test_every_exit_code_is_in_the_reference() -> None:
    def family(kind: type[errors.FallowError]) -> set[int]:
        return {kind.exit_code}.union(*(family(below) for below in kind.__subclasses__()))

    told = {int(code) for code in re.findall(r"^\| (\d+) \|", CLI, re.MULTILINE)}
    assert family(errors.FallowError) <= told
    tree = errors.__doc__ or ""
    assert all(re.search(rf"\b{code}\b", tree) for code in family(errors.FallowError)), (
        "the tree at the head of errors.py"
    )


def test_every_variable_is_in_the_reference() -> None:
    source = "".join(path.read_text() for path in (REPOSITORY / "src").rglob("*.py"))
    used = set(re.findall(r"\bFALLOW_[A-Z_]+", source))
    assert {name for name in used if f"`{name}`" not in CLI} == set()


def test_every_field_of_the_json_is_in_the_reference(simulated: Fallow) -> None:
    import json

    text = (REPOSITORY / "docs" / "reference" / "json.md").read_text()
    status = json.loads(simulated("status", "--json").stdout)
    assert [name for name in (*status, *status["gpus"][0]) if f"`{name}`" not in text] == []


def test_links_between_the_documents_lead_somewhere() -> None:
    for page in [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} -> {target}"


def transcripts(text: str) -> list[list[tuple[str, str]]]:
    """Each console block: its `$ commands`, with what is shown below them."""
    blocks = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
        blocks.append([(command, shown) for command, _, shown in (part.partition("\n") for part in parts)])
    return blocks


def alike(text: str) -> list[list[str]]:
    """Lines as words; names of machine and user, pids and seconds differ from run to run."""
    for pattern, word in (
        (r"^\S+: (\d+ simulated)", r"HOST: \1"),
        (r"^( *)\S+ protects", r"\1USER protects"),
        (r"for another \S+", "for another D"),
        (r"claimed by \S+", "claimed by USER"),
        (r"pid \d+", "pid N"),
        (r"protection \d+", "protection N"),
        (r"\b\d+(\.\d)?s\b", "Ns"),
    ):
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return [line.split() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("block", transcripts(README), ids=lambda block: block[0][0][:40])
def test_the_readme_shows_what_really_happens(fallow: Fallow, block: list[tuple[str, str]]) -> None:
    for command, shown in block:
        done = subprocess.run(
            ["bash", "-c", command],
            env={**fallow.environ, "FALLOW_SIMULATE": "8xH100"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        assert alike(done.stdout) == alike(shown), command


def python_blocks() -> list[str]:
    pages = [README, (REPOSITORY / "docs" / "reference" / "python.md").read_text()]
    return [block for page in pages for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL)]


@pytest.mark.parametrize("block", python_blocks())
def test_the_python_in_the_documents_runs(fallow: Fallow, block: str, tmp_path: pathlib.Path) -> None:
    program = tmp_path / "block.py"
    program.write_text(block)
    environ = {**os.environ, **fallow.environ, "FALLOW_SIMULATE": "8xH100"}
    done = subprocess.run(
        ["python", str(program)], env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
