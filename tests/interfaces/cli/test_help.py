"""`--help` of every command fits 80 columns, and a mistyped word is answered with the one that was meant."""

import pytest

from fallow.interfaces.cli.main import COMMANDS, command_of
from fallow.interfaces.cli.options import common
from tests.conftest import Fallow
from tests.harness import cli

LONGEST = 80


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_80_columns_and_has_examples(command: str) -> None:
    text = command_of(command, common())[1].format_help()
    assert [line for line in text.splitlines() if len(line) > LONGEST] == []
    assert "examples:\n" in text


def test_the_list_of_commands_fits_and_names_each(fallow: Fallow) -> None:
    told = cli("--help").out
    assert [line for line in told.splitlines() if len(line) > LONGEST] == []
    assert [name for name in (*COMMANDS, "help") if f"\n  {name} " not in told] == []
    assert fallow().stdout == cli("help").out == told


@pytest.mark.parametrize("words", [("run",), ("compat", "gpuselect")])
def test_help_of_a_command_is_the_same_however_it_is_asked_for(words: tuple[str, ...]) -> None:
    assert cli("help", *words).out == cli(*words, "--help").out != ""


@pytest.mark.parametrize("words", [("run", "--", "echo", "ran"), ("compat", "gpuselect", "ls")])
def test_help_runs_nothing(words: tuple[str, ...]) -> None:
    assert cli("help", *words)[:2] == (2, "")
