"""What is printed fits a narrow terminal, and a path in it can be copied in one piece."""

import pathlib
import re
import time

import pytest

from fallow.interfaces.cli.main import COMMANDS
from tests.conftest import Fallow
from tests.interfaces.cli.test_report import record, two_cards

pytestmark = pytest.mark.more

NARROW = "40"


@pytest.fixture
def days(fallow: Fallow) -> str:
    """The report on three days, on a narrow terminal."""
    fallow.environ["TZ"] = "UTC"
    record(fallow, two_cards(time.time() - 600, 600))
    return fallow("report", "--since", "3d", COLUMNS=NARROW).stdout


def test_the_notes_below_a_report_are_as_narrow_as_its_table(days: str) -> None:
    long = [line for line in days.splitlines() if len(line) > int(NARROW)]
    assert all("/" in line and " " not in line for line in long), "a path alone is longer"
    assert "Energy: unknown, because no counter of energy was read in that time." in " ".join(days.split())


def test_the_hours_of_the_week_stand_closer_on_a_narrow_terminal(days: str) -> None:
    lines = days.splitlines()
    (heads,) = (line for line in lines if line.lstrip().startswith("00 03"))
    rows = {line[:3]: line for line in lines if line.startswith(("Mon ", "Tue ", "Sun "))}
    assert set(rows) == {"Mon", "Tue", "Sun"}
    for row in rows.values():
        assert len(row.split()[1]) == 24, "a mark for each hour, in one piece"
        assert row.index(row.split()[1]) == heads.index("00") + 1


def test_the_table_of_burn_leaves_out_what_matters_least(simulated: Fallow) -> None:
    narrow = simulated("burn", "--gpus", "0", "--verify", "--for", "100ms", COLUMNS=NARROW).stdout.splitlines()
    assert all(len(line) <= int(NARROW) for line in narrow), narrow
    assert narrow[-2].split()[0] == "GPU"
    assert narrow[-2].split()[-1] == "errors"
    wide = simulated("burn", "--gpus", "0", "--verify", "--for", "100ms", COLUMNS="72").stdout.splitlines()
    assert {"traffic", "power", "throttled"} <= set(wide[1].split()), "they are folded first"


def too_long(text: str) -> list[str]:
    return [line for line in text.splitlines() if len(line) > int(NARROW)]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_is_folded_and_a_command_in_it_can_be_copied_in_one_piece(fallow: Fallow, command: str) -> None:
    wide, narrow = (fallow(*command.split(), "--help", COLUMNS=columns).stdout for columns in ("80", NARROW))
    assert narrow.split() == wide.split(), "the same words"
    examples = re.findall(r"^  (\S.*?)(?:  .*)?$", wide.partition("\nexamples:\n")[2], re.MULTILINE)
    assert [each for each in examples if f"\n  {each}" not in narrow] == []
    whole = {narrow.splitlines()[0].strip(), *examples}
    assert [line for line in too_long(narrow) if line.strip() not in whole and "{" not in line] == [], "no choices"


def test_why_is_folded_on_a_terminal_and_a_line_for_each_sentence_in_a_pipe(simulated: Fallow) -> None:
    simulated("protect", "0", "--for", "1h", "--why", "I debug it, " * 20)
    whole = simulated("why", "0").stdout
    assert too_long(whole)
    folded = simulated("why", "0", COLUMNS=NARROW).stdout
    assert (too_long(folded), folded.split()[:9]) == ([], whole.split()[:9])
    assert folded.splitlines()[2].startswith("    "), "what goes on stands further in"


@pytest.mark.parametrize("columns", ["80", "40"])
def test_doctor_keeps_every_path_in_one_piece(simulated: Fallow, tmp_path: pathlib.Path, columns: str) -> None:
    deep = tmp_path / ("a-rather-long-name-of-a-folder" * 3) / "state"
    deep.mkdir(parents=True)
    told = simulated("doctor", COLUMNS=columns, FALLOW_STATE_DIR=str(deep)).stdout
    assert str(deep / "simulated") in told


def test_doctor_names_folders_with_a_space_so_that_a_shell_takes_them(
    simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    state = tmp_path / "Größe und Gewicht" / ("a-rather-long-name-of-a-folder" * 2)
    state.mkdir(parents=True)
    state.chmod(0o777)
    socket = state / "run" / "fallow.sock"
    told = simulated("doctor", COLUMNS="80", FALLOW_STATE_DIR=str(state), FALLOW_SOCKET=str(socket)).stdout
    assert f"'{socket}'" in told
    assert f"('{state / 'simulated' / 'journal.db'}')" in told
    simulated.environ |= {"FALLOW_STATE_DIR": str(state)}
    (state / "simulated").mkdir()
    (state / "simulated").chmod(0o777)
    assert f"chmod go-w '{state / 'simulated'}'" in " ".join(simulated("doctor", COLUMNS="400").stdout.split())
