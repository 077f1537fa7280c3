"""fallow understands every command in the documents."""

import pathlib
import re

import pytest

from fallow.core.errors import WrongUsage
from fallow.interfaces.cli import main
from fallow.interfaces.cli.options import common
from tests.house.commands import INLINE, PAGES, PLACEHOLDER, blocks, calls
from tests.places import REPOSITORY

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
    text = "```sh\nfallow status --cluster  # all\n```\n\n```sh\nfallow statsu\\\n --josn\nls\n```\n"
    first, second = list(blocks(page, text))
    assert (first.line, first.lines) == (1, ["fallow status --cluster  # all"])
    assert (second.line, second.lines) == (5, ["fallow statsu  --josn", "ls"])
    assert calls("ls") == []
    assert calls('eval "$(fallow pick -n 2)" && sudo fallow stop 3 2>/dev/null') == [
        ["pick", "-n", "2"],
        ["stop", "3"],
    ]
    for wrong in (["statsu"], ["status", "--josn"], ["run", "--idle-timeout", "soon", "--", "true"]):
        with pytest.raises((AssertionError, WrongUsage)):
            understood(wrong)
