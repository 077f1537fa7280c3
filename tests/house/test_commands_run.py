"""Commands in the documents that end by themselves are run on simulated GPUs; those that go on are begun, dry."""

import pathlib
import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.conftest import Fallow
from tests.house.commands import INLINE, PAGES, PLACEHOLDER, Block, blocks, calls
from tests.places import LIMIT_S, REPOSITORY

BLOCKS = [block for page in PAGES for block in blocks(page)]
ENDS = {"status", "pick", "check", "report", "doctor", "why", "protect", "idle", "wake", "run", "stop", "completion"}
"""Commands that end by themselves."""
SAYS = {"guard": "guarding", "fill": "would fill"}
"""Commands that go on until they are told to end, and what they say when they have begun a dry run."""
NOT_PERMITTED = 77
NOT_HERE = re.compile(
    r"--watch|--release|--fleet|\bada\b|pid:|deployment:|\buser[12]\b|--then|always:|&$|\b[A-Z]{3,}\b"
)
"""What a line has that goes on for ever, or that names what is not here."""
ANSWERS = (0, 1, 69, 75)
"""Exit codes of a command that was understood: there may be no job, no daemon or no history to tell of."""
PROGRAMS = ("python", "torchrun", "make", "nightly-benchmark", "miner-run", "sudo")
"""Programs of the reader: here they do nothing."""


def in_tables() -> Iterator[Block]:
    """Yield the commands in the tables of the page that sets fallow beside other tools, as if each was a block."""
    page = REPOSITORY / "docs" / "guides" / "instead-of.md"
    for number, row in enumerate(page.read_text().splitlines(), 1):
        for command in INLINE.findall(row) if row.startswith("| ") else []:
            if not PLACEHOLDER.search(command):
                yield Block(page, number, "table", "", [command])


def shape(line: str) -> str:
    """Return the line, or of commands that take long which options it has: others with the same are not run again."""
    match calls(line):
        case [["run" | "fill" | "guard" | "report", *rest]]:
            own = rest[: [*rest, "--"].index("--")]
            return " ".join([*kind_of(line), *sorted(word for word in own if word.startswith("-"))])
        case _:
            return line


def to_run() -> dict[str, Block]:
    """Return the lines that this test runs itself, each with the first block that has it, or one with its options."""
    found: dict[str, Block] = {}
    shapes: set[str] = set()
    for block in [*BLOCKS, *in_tables()]:
        if block.mark or (block.page.name == "README.md" and block.kind == "console"):  # tests/house/test_readme.py
            continue
        for line in block.lines:
            command = line.partition(" # ")[0].strip()
            if not NOT_HERE.search(command) and shape(command) not in shapes:
                shapes.add(shape(command))
                found[command] = block
    return found


@pytest.fixture
def here(fallow: Fallow, tmp_path: pathlib.Path) -> Fallow:
    """fallow on simulated GPUs, in an empty folder, with a config, and with the programs of the reader."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).write_text('#!/bin/sh\n[ "${0##*/}" != sudo ] || exec "$@"\n')
        (programs / name).chmod(0o755)
    (tmp_path / "fallow.toml").write_text("[machine]\nevery = '1s'\n")
    fallow.environ |= {
        "PATH": f"{programs}:{fallow.environ['PATH']}",
        "FALLOW_SIMULATE": "8xH100,2x3090",
        "FALLOW_CONFIG": str(tmp_path / "fallow.toml"),
    }
    return fallow


def kind_of(line: str) -> set[str]:
    return {call[0] for call in calls(line)}


def ending() -> dict[pathlib.Path, list[str]]:
    """Return the lines that end by themselves, by the page that has them first."""
    found: dict[pathlib.Path, list[str]] = {}
    for line, block in to_run().items():
        if kind_of(line) <= ENDS:
            found.setdefault(block.page, []).append(line)
    return found


@pytest.mark.parametrize("page", ending(), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_commands_that_end_by_themselves_are_run(page: pathlib.Path, here: Fallow, tmp_path: pathlib.Path) -> None:
    for line in ending()[page]:
        dry = " --dry-run" if "stop" in kind_of(line) and "--dry-run" not in line else ""
        done = subprocess.run(
            ["bash", "-c", line + dry],
            env=here.environ,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode in ANSWERS, f"{line}\n{done.stderr}"
        assert "internal error" not in done.stderr, line


def test_the_lines_that_are_run_are_many() -> None:
    assert sum(len(lines) for lines in ending().values()) > 40


def begins(here: Fallow, line: str, call: list[str]) -> None:
    """Begin a command that goes on, dry, and see it say that it has begun: only what is wrong ends at once."""
    begun = here.start(call[0], *([] if "--dry-run" in call else ["--dry-run"]), *call[1:])
    assert begun.stderr is not None
    said = begun.stderr.readline()
    if SAYS[call[0]] not in said:
        assert begun.wait(LIMIT_S) == NOT_PERMITTED, f"{to_run()[line].place}: {line}\n{said}"
    begun.kill()
    begun.communicate()


def test_commands_that_go_on_begin_as_the_documents_say(here: Fallow) -> None:
    lines = [line for line in to_run() if calls(line) and calls(line)[0][0] in SAYS]
    assert {calls(line)[0][0] for line in lines} == set(SAYS)
    for line in lines:
        begins(here, line, calls(line)[0])


def test_the_daemon_runs_as_the_documents_say(here: Fallow, tmp_path: pathlib.Path) -> None:
    lines = [line for line in to_run() if kind_of(line) == {"up"}]
    assert lines != []
    for line in lines:
        words = [*calls(line)[0], "--for", "1s", "--listen", "127.0.0.1:0"]
        done = here(*[str(tmp_path / word) if word == "fallow.toml" else word for word in words])
        assert done.returncode == 0, done.stderr


def test_a_file_of_commands_runs_one_on_each_gpu(here: Fallow, tmp_path: pathlib.Path) -> None:
    (block,) = [block for block in BLOCKS if "tests/house/test_commands_run.py" in block.tested_by]
    (tmp_path / "gpu_commands.txt").write_text('echo "$CUDA_VISIBLE_DEVICES" >> gpus\n' * 5)
    done = subprocess.run(
        ["bash", "-c", block.lines[0]],
        env=here.environ,
        cwd=tmp_path,
        timeout=LIMIT_S,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    gpus = (tmp_path / "gpus").read_text().splitlines()
    assert len(gpus) == 5
    assert {gpu[-1] for gpu in gpus} <= {"0", "1", "2"}
