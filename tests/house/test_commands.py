"""Every command in the documents works: it is run on simulated GPUs, or understood, or marked as needing more."""

import pathlib
import re
import subprocess

import pytest

from fallow.core.errors import WrongUsage
from fallow.interfaces.cli import main
from fallow.interfaces.cli.options import common
from tests.conftest import Fallow
from tests.house.commands import PAGES, Block, blocks, calls
from tests.places import LIMIT_S, REPOSITORY

BLOCKS = [block for page in PAGES for block in blocks(page)]
ENDS = {"status", "pick", "check", "report", "doctor", "why", "protect", "idle", "wake", "run", "stop"}
"""Commands that end by themselves."""
SAYS = {"guard": "guarding", "fill": "would fill"}
"""Commands that go on until they are told to end, and what they say when they have begun a dry run."""
NOT_PERMITTED = 77
PYTHON = "python3 -c "
NOT_HERE = re.compile(r"--watch|--release|--fleet|\bada\b|pid:|deployment:|\buser[12]\b|--then|always:|\b[A-Z]{3,}\b")
"""What a line has that goes on for ever, or that names what is not here."""
ANSWERS = (0, 1, 69, 75)
"""Exit codes of a command that was understood: there may be no job, no daemon or no history to tell of."""
PROGRAMS = ("python", "torchrun", "make", "nightly-benchmark", "miner-run", "sudo")
"""Programs of the reader: here they do nothing."""


def understood(call: list[str]) -> str:
    """Let fallow parse its arguments, and return the command's name."""
    before, name, after, _ = main._split(main._help_as_option(call))
    assert name in main.COMMANDS, f"there is no command {name}"
    shared = common()
    parser = main.command_of(name, shared)[1]
    try:
        parser.parse_args(after, main.Parser("fallow", "", "", [shared]).parse_args(before))
    except SystemExit:  # the help was asked for
        assert "--help" in after
    return name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_fallow_understands_every_command_in_the_documents(page: pathlib.Path) -> None:
    for block in blocks(page):
        for line in block.lines:
            for call in calls(line):
                try:
                    understood(call)
                except Exception as error:  # noqa: BLE001  whatever it is, say where
                    pytest.fail(f"{block.place}: {line}: {error}")


INLINE = re.compile(r"(?<!`)`((?:sudo )?fallow [a-z][^`\n]*)`")
PLACEHOLDER = re.compile(r"…|\b[A-Z]+\b|[\[{|<]|\bFALLOW|^fallow (?:and|or|is)\b")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_fallow_understands_what_the_sentences_of_the_documents_name(page: pathlib.Path) -> None:
    """A command in a sentence may leave out what follows: its options are right, and there is such a command."""
    for said in INLINE.findall(page.read_text()):
        if PLACEHOLDER.search(said):
            continue
        for call in calls(said.replace("\\|", "|")):
            options = {word.partition("=")[0] for word in call[: [*call, "--"].index("--")] if word.startswith("-")}
            assert call[0] in (*main.COMMANDS, "help"), f"{page.name}: {said}"
            if call[0] not in ("help", "compat"):
                parser = main.command_of(call[0], common())[1]
                known = {name for action in parser._actions for name in action.option_strings}
                assert options <= known, f"{page.name}: {said}"


def test_a_line_that_is_no_command_of_fallow_says_what_it_needs_or_which_test_runs_it() -> None:
    unmarked = [
        f"{block.place}: {line}"
        for block in BLOCKS
        if not block.mark
        for line in block.lines
        if not calls(line) and not line.startswith(PYTHON)
    ]
    assert unmarked == []


def test_every_mark_is_of_a_kind_and_names_a_test_that_is_there() -> None:
    assert [block.place for block in BLOCKS if block.mark and block.needs is None and not block.tested_by] == []
    assert [name for block in BLOCKS for name in block.tested_by if not (REPOSITORY / name).exists()] == []


def test_no_command_hides_in_a_block_that_is_only_indented() -> None:
    hidden = [
        f"{page.relative_to(REPOSITORY)}: {line}"
        for page in PAGES
        for line in re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.M | re.S).splitlines()
        if re.match(r" {4,}(\$ )?(sudo )?fallow [a-z]", line)
    ]
    assert hidden == []


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
    for block in BLOCKS:
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


def test_commands_that_end_by_themselves_are_run(here: Fallow, tmp_path: pathlib.Path) -> None:
    lines = [line for line in to_run() if kind_of(line) <= ENDS]
    assert len(lines) > 15
    for line in lines:
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
        assert done.returncode in ANSWERS, f"{to_run()[line].place}: {line}\n{done.stderr}"
        assert "internal error" not in done.stderr, line


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


def test_a_wrong_command_in_a_document_is_found(tmp_path: pathlib.Path) -> None:
    page = REPOSITORY / "docs" / "none.md"
    marked = "<!-- needs: a cluster -->\n```sh\nfallow status --cluster  # all\n```\n\n"
    text = marked + "```sh\nfallow statsu\\\n --josn\nls\n```\n"
    first, second = list(blocks(page, text))
    assert (first.needs, first.lines) == ("a cluster", ["fallow status --cluster  # all"])
    assert (second.line, second.lines) == (6, ["fallow statsu  --josn", "ls"])
    assert calls("ls") == []
    assert calls('eval "$(fallow pick -n 2)" && sudo fallow stop 3 2>/dev/null') == [
        ["pick", "-n", "2"],
        ["stop", "3"],
    ]
    for wrong in (["statsu"], ["status", "--josn"], ["run", "--idle-timeout", "soon", "--", "true"]):
        with pytest.raises((AssertionError, WrongUsage)):
            understood(wrong)
