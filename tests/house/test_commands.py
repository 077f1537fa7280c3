"""fallow understands every command in the documents, and who is named to run one runs it."""

import pathlib
import re

import pytest

from fallow.core.errors import WrongUsage
from fallow.interfaces.cli import main
from fallow.interfaces.cli.options import common
from tests.house.commands import INLINE, PAGES, PLACEHOLDER, blocks, calls
from tests.places import REPOSITORY

CALLED_BY_CI = ("Makefile", "scripts/try-installers", "scripts/try-installed", "scripts/try-deb")
"""What .ci/run and .ci/release call."""
BLOCKS = [block for page in PAGES for block in blocks(page)]


WHOLE = ("instead-of.md", "my-job-was-stopped.md", "faq.md")
"""Pages whose sentences and tables name commands with everything that follows."""


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_fallow_understands_what_the_sentences_of_the_documents_name(page: pathlib.Path) -> None:
    """A command in a sentence may leave out what follows: its options are right, and there is such a command."""
    for said in INLINE.findall(page.read_text()):
        if PLACEHOLDER.search(said):
            continue
        for call in calls(said.replace("\\|", "|")):
            options = {word.partition("=")[0] for word in call[: [*call, "--"].index("--")] if word.startswith("-")}
            assert call[0] in (*main.COMMANDS, "help"), f"{page.name}: {said}"
            if page.name in WHOLE and len(call) > 1:
                understood(call)
            elif call[0] not in ("help", "compat"):
                parser = main.command_of(call[0], common())[1]
                known = {name for action in parser._actions for name in action.option_strings}
                assert options <= known, f"{page.name}: {said}"


@pytest.mark.parametrize("name", sorted({name for block in BLOCKS for name in block.run_by}))
def test_who_is_named_to_run_a_block_runs_it(name: str) -> None:
    """A test takes the lines from the page. Scripts of CI have each command, with words of their own behind it."""
    named = [block for block in BLOCKS if name in block.run_by]
    text = (REPOSITORY / name).read_text()
    if name.endswith(".py"):
        others = [block.place for block in named if block.page.name not in text]
        assert "blocks_run_by(__file__)" in text or others == []
        return
    said = [line for each in (name, *CALLED_BY_CI) for line in (REPOSITORY / each).read_text().splitlines()]
    missing = [
        f"{block.place}: {line}"
        for block in named
        for line in block.lines
        if not any(all(word in each for word in beginning(line)) for each in said)
    ]
    assert missing == []


def beginning(line: str) -> list[str]:
    """Return the program of a line and the first plain word behind it: `uv tool`, `make demo`, `python pytest`."""
    found = [word.rpartition("/")[2] for word in line.split() if "=" not in word and not word.startswith("-")]
    return [word.rstrip("3") for word in found[:2]]


def test_commands_stand_in_blocks_of_two_kinds() -> None:
    """sh for what is typed, console for what is shown with it: a block of another kind would hide its commands."""
    others = [
        f"{page.relative_to(REPOSITORY)}: {kind}"
        for page in PAGES
        for kind in re.findall(r"^ *```(bash|shell|zsh|fish|shell-session)\b", page.read_text(), re.M)
    ]
    assert others == []


def test_no_command_hides_in_a_block_that_is_only_indented() -> None:
    hidden = [
        f"{page.relative_to(REPOSITORY)}: {line}"
        for page in PAGES
        for line in re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.M | re.S).splitlines()
        if re.match(r" {4,}(\$ )?(sudo )?fallow [a-z]", line)
    ]
    assert hidden == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_fallow_understands_what_files_for_other_programs_start(page: pathlib.Path) -> None:
    files = re.findall(r"^```(?:yaml|ini|crontab)\n(.*?)^```$", page.read_text(), re.M | re.S)
    for started in re.findall(r"\bfallow ((?:run|idle|up|guard|stop) [^\n&|]*)", "\n".join(files)):
        understood(calls(f"fallow {started}")[0])


def test_a_wrong_command_in_a_document_is_found() -> None:
    page = REPOSITORY / "docs" / "none.md"
    marked = "*Not run by the tests: it needs a cluster.*\n\n```sh\nfallow status --cluster  # all\n```\n\n"
    text = marked + "```sh\nfallow statsu\\\n --josn\nls\n```\n"
    first, second = list(blocks(page, text))
    assert (first.needs, first.lines) == ("a cluster", ["fallow status --cluster  # all"])
    assert (second.line, second.lines) == (7, ["fallow statsu  --josn", "ls"])
    assert calls("ls") == []
    assert calls('eval "$(fallow pick -n 2)" && sudo fallow stop 3 2>/dev/null') == [
        ["pick", "-n", "2"],
        ["stop", "3"],
    ]
    for wrong in (["statsu"], ["status", "--josn"], ["run", "--idle-timeout", "soon", "--", "true"]):
        with pytest.raises((AssertionError, WrongUsage)):
            understood(wrong)
