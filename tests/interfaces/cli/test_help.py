"""`--help` of every command: 80 columns, whole words, a phrase for each option, examples; and `help`, `-V`."""

import argparse
import re

import pytest

from fallow.interfaces.cli.main import COMMANDS, command_of
from fallow.interfaces.cli.options import Parser, common
from tests.conftest import Fallow

LONGEST = 80


def parser_of(command: str) -> Parser:
    return command_of(command, common())[1]


def shown_actions(parser: Parser) -> list[argparse.Action]:
    return [action for action in parser._actions if action.help != argparse.SUPPRESS]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_80_columns_and_breaks_no_word(command: str) -> None:
    parser = parser_of(command)
    text = parser.format_help()
    assert [line for line in text.splitlines() if len(line) > LONGEST] == []
    words = text.split()
    told = " ".join(action.help or "" for action in shown_actions(parser)).replace("%%", "%")
    assert [word for word in told.split() if word not in words] == []
    assert "examples:\n" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_explained_by_a_phrase_that_ends_without_a_full_stop(command: str) -> None:
    for action in shown_actions(parser_of(command)):
        said = action.help or ""
        assert len(said.split("(default")[0].split()) >= 3, f"{action.dest}: {said!r}"
        assert re.match(r"[a-zA-Z`]", said), said
        assert not said.endswith("."), said


@pytest.mark.parametrize("command", COMMANDS)
def test_a_default_is_named_wherever_there_is_one(command: str) -> None:
    for action in parser_of(command)._actions:
        takes_value = not isinstance(action, argparse._StoreTrueAction | argparse._HelpAction)
        if takes_value and action.option_strings and action.default not in (None, [], "", 0, argparse.SUPPRESS):
            assert "default" in (action.help or ""), action.dest


def test_only_what_fallow_itself_types_is_left_out_of_help() -> None:
    hidden = {
        (command, action.option_strings[0])
        for command in COMMANDS
        for action in parser_of(command)._actions
        if action.help == argparse.SUPPRESS
    }
    assert hidden == {("run", "--over-ssh")}
    assert "over-ssh" not in parser_of("run").format_help()


def test_the_list_of_commands_fits_and_names_each(fallow: Fallow) -> None:
    told = fallow("--help").stdout
    assert [line for line in told.splitlines() if len(line) > LONGEST] == []
    assert [name for name in (*COMMANDS, "help") if f"\n  {name} " not in told] == []
    listed = told.partition("commands:\n")[2].partition("\n\n")[0]
    begins = {re.match(r"  \w+ +", line).end() for line in listed.splitlines()}  # type: ignore[union-attr]
    assert len(begins) == 1, "what each does stands in one column"
    assert fallow().stdout == fallow("help").stdout == fallow("-h").stdout == told


@pytest.mark.parametrize("command", ["status", "run", "compat"])
def test_help_of_a_command_is_the_same_however_it_is_asked_for(fallow: Fallow, command: str) -> None:
    told = fallow(command, "--help")
    assert told.returncode == 0
    assert told.stdout.startswith(f"usage: fallow {command} ")
    assert fallow("help", command).stdout == fallow(command, "-h").stdout == told.stdout


def test_help_of_an_older_tool_is_the_tools_own(fallow: Fallow) -> None:
    assert fallow("help", "compat", "gpuselect").stdout == fallow("compat", "gpuselect", "--help").stdout != ""


@pytest.mark.parametrize("words", [("run", "--", "echo", "ran"), ("run", "--dry-run"), ("compat", "gpuselect", "ls")])
def test_help_runs_nothing(fallow: Fallow, words: tuple[str, ...]) -> None:
    done = fallow("help", *words)
    assert (done.returncode, done.stdout) == (2, "")


def test_the_version_is_printed_by_both_its_names(fallow: Fallow) -> None:
    assert fallow("-V").stdout == fallow("--version").stdout
    assert re.fullmatch(r"fallow \d\S*\n", fallow("-V").stdout)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("hold", "--for", "2h"), "protect"),
        (("statsu",), "status"),
        (("help", "statsu"), "status"),
        (("hepl",), "help"),
        (("guard", "--rehearse"), "--dry-run"),
        (("run", "--rehearse", "--", "true"), "--dry-run"),
        (("run", "--idle-timout", "5m", "--", "true"), "--idle-timeout"),
        (("run", "--idle-timout=5m", "--", "true"), "--idle-timeout"),
        (("burn", "--load", "hold"), "memory"),
        (("burn", "--load", "matmull"), "matmul"),
        (("pick", "--order", "indx"), "index"),
        (("report", "--by", "users"), "user"),
        (("guard", "--action", "shutdwn"), "shutdown"),
        (("run", "--signal", "TREM", "--", "true"), "TERM"),
        (("guard", "--unless", "usrs"), "users"),
        (("protect", "usr:ada", "--for", "1h"), "user"),
        (("compat", "gpu_select"), "gpuselect"),
        (("burn", "--mem", "5%"), "--memory"),
        (("status", "--simulate=4xA10O"), "4xA100"),
    ],
)
def test_an_old_or_mistyped_word_is_answered_with_the_one_that_was_meant(
    simulated: Fallow, words: tuple[str, ...], meant: str
) -> None:
    done = simulated(*words)
    assert done.returncode == 2, done.stderr
    assert f"did you mean {meant}?" in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.more
@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("[[guard]]\nname = 'a'\nrehearse = true\n", "dry_run"),
        ("[[guard]]\nname = 'a'\nidle-fro = '5m'\n", "idle_for"),
        ("[[guard]]\nname = 'a'\nacross = 'al'\n", "all"),
        ("[[gaurd]]\nname = 'a'\n", "guard"),
        ("[[guard]]\nname = 'a'\naction = 'shutdwn'\n", "shutdown"),
    ],
)
def test_an_old_or_mistyped_word_of_a_config_is_answered_so_too(simulated: Fallow, text: str, meant: str) -> None:
    file = simulated.home / "fallow.toml"
    file.write_text(text)
    done = simulated("check", str(file))
    assert done.returncode == 78
    assert f"did you mean {meant}?" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("pick", "--json"), "there is no option --json; write --format json (see: fallow pick --help)"),
        (("report", "--csv"), "there is no option --csv; write --format csv (see: fallow report --help)"),
        (("run", "--json", "--", "true"), "there is no option --json (see: fallow run --help)"),
        (("fill", "--after", "5m", "--", "true"), "there is no option --after (see: fallow fill --help)"),
        (("status", "--simulate", "600xH100"), "'600xH100' has too many GPUs; at most 64 are simulated"),
        (("status", "--every", "-3s"), "--every: '-3s' is not a duration; write it as 90, 90s, 10m, 2h, 1h30m or 7d"),
        (("report", "--price", "-1/h"), "'-1/h' is not a price"),
    ],
)
def test_a_wrong_word_is_answered_with_what_to_write_and_never_with_what_does_something_else(
    simulated: Fallow, words: tuple[str, ...], told: str
) -> None:
    done = simulated(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


def test_help_of_help_is_the_list_of_commands(fallow: Fallow) -> None:
    assert fallow("help", "help").stdout == fallow("--help").stdout != ""
