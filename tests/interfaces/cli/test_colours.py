"""Errors and verdicts are in colour where that is wanted, and nowhere else."""

import pathlib

import pytest

from tests.conftest import Fallow


def test_the_name_before_an_error_is_red_and_what_to_do_is_plain(simulated: Fallow) -> None:
    forced = simulated("pick", "-n", "0", FORCE_COLOR="1").stderr
    assert forced.startswith("\x1b[31mfallow:\x1b[0m ")
    assert forced.count("\x1b") == 2
    plain = simulated("pick", "-n", "0").stderr
    assert plain == forced.replace("\x1b[31m", "").replace("\x1b[0m", "")
    assert "\x1b" not in simulated("pick", "-n", "0", FORCE_COLOR="1", NO_COLOR="1").stderr
    assert "\x1b" not in simulated("pick", "-n", "0", "--log-format", "json", FORCE_COLOR="1").stderr


def test_the_lines_that_follow_an_error_are_plain(simulated: Fallow) -> None:
    first, *others = simulated("pick", "-n", "9", FORCE_COLOR="1").stderr.splitlines()
    assert first.startswith("\x1b[31m")
    assert "\x1b" not in "".join(others)


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "\x1b[32mno mistakes\x1b[0m"), ("[page]\nenabeld = true\n", "1 \x1b[31mmistake\x1b[0m")],
)
def test_the_verdict_on_a_config_is_in_colour(
    simulated: Fallow, tmp_path: pathlib.Path, text: str, words: str
) -> None:
    file = tmp_path / "fallow.toml"
    file.write_text(text)
    assert words in simulated("check", str(file), FORCE_COLOR="1").stdout
    assert "\x1b" not in simulated("check", str(file)).stdout


def test_the_states_that_doctor_finds_are_in_colour(simulated: Fallow) -> None:
    said = simulated("doctor", FORCE_COLOR="1").stdout
    assert "\x1b[32mok\x1b[0m" in said.splitlines()[1]
    assert "\x1b[32mok\x1b[0m" in said.splitlines()[-1]
    assert "\x1b" not in simulated("doctor").stdout
