"""The README shows what really happens: its transcripts and its Python are run."""

import os
import pathlib
import re
import subprocess

import pytest

from tests.conftest import Fallow
from tests.places import LIMIT_S, REPOSITORY

README = (REPOSITORY / "README.md").read_text()


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
        (r"^\S+: (\d+ x \S+ \(simulated\))", r"HOST: \1"),
        (r"^( *)\S+ protects", r"\1USER protects"),
        (r"for another \S+", "for another D"),
        (r"claimed by \S+", "claimed by USER"),
        (r"pid \d+", "pid N"),
        (r"protection \d+", "protection N"),
        (r"\b\d+(\.\d)?s\b", "Ns"),
        (r"at most \S+ MiB", "at most N MiB"),
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
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        assert alike(done.stdout) == alike(shown), command


def python_blocks() -> list[str]:
    docs = REPOSITORY / "docs"
    pages = [README, (docs / "reference" / "python.md").read_text()]
    notebook = (docs / "guides" / "recipes.md").read_text().partition("## A notebook")[2]
    cells = re.findall(r"```python\n(.*?)```", notebook, re.DOTALL)
    return [
        "".join(cells),
        *(block for page in pages for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL)),
    ]


@pytest.mark.parametrize("block", python_blocks())
def test_the_python_in_the_documents_runs(fallow: Fallow, block: str, tmp_path: pathlib.Path) -> None:
    program = tmp_path / "block.py"
    program.write_text(block)
    environ = {**os.environ, **fallow.environ, "FALLOW_SIMULATE": "8xH100"}
    done = subprocess.run(
        ["python", str(program)], env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
