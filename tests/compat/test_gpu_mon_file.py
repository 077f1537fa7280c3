"""gpu_mon's INI file: both examples of its document, every key, and the fallow.toml that says the same."""

import pathlib
import tomllib
from typing import Any

import pytest

from fallow.engine.config.load import understand
from tests.compat.documents import blocks
from tests.conftest import Fallow

ALL_TOGETHER, EACH_ALONE = blocks("gpu_mon", "ini")
Table = dict[str, Any]


@pytest.fixture
def printed(fallow: Fallow, tmp_path: pathlib.Path) -> Any:
    """Returns the tables of the fallow.toml that is printed for a file; its check finds no mistake."""

    def convert(text: str) -> Table:
        file = tmp_path / "gpu_mon.conf"
        file.write_text(text)
        done = fallow("compat", "gpu_mon", "-c", str(file), "--print-config")
        assert done.returncode == 0, done.stderr
        understand(done.stdout, "fallow.toml")
        tables = tomllib.loads(done.stdout)
        assert {filler.pop("user") for filler in tables["filler"]} == {fallow.environ.get("USER", "root")}
        return tables

    return convert


MINER = {"command": ["miner-run"], "idle_for": "10s", "ignore": ["nvidia-smi"], "cwd": "/tmp", "log": "/dev/null"}
PEOPLE = {"users": "yield", "user_idle": "300s", "ignore_user": ["user1", "user2"]}


def test_the_first_example_is_one_program_over_all_cards(printed: Any) -> None:
    filler = {"name": "process-all", "gpus": "all", "together": True, "priority": 0, **MINER}
    assert printed(ALL_TOGETHER) == {"terminals": PEOPLE, "filler": [filler]}


def test_the_second_example_is_a_program_for_each_card(printed: Any) -> None:
    fillers = [
        {"name": f"process-{gpu}", "gpus": str(gpu), "together": False, "priority": -gpu, **MINER} for gpu in (0, 1)
    ]
    assert printed(EACH_ALONE) == {"terminals": PEOPLE, "filler": fillers}


def test_what_is_left_out_has_a_default(printed: Any) -> None:
    told = printed("[process-my miner!]\ncmd=nice -n 5 'a b' --rate 5% $x\ngpus=2, 0\n")
    assert told["terminals"] == {"users": "ignore"}
    assert told["filler"] == [
        {
            "name": "process-my-miner-",
            "command": ["nice", "-n", "5", "a b", "--rate", "5%", "$x"],
            "gpus": "2,0",
            "together": True,
            "priority": 0,
            "idle_for": "10s",
            "ignore": [],
        }
    ]


def test_people_count_as_away_no_sooner_than_a_terminal_can_show(printed: Any) -> None:
    told = printed("[process-x]\ncmd=x\n[tty]\nenabled=yes\nidle_seconds=3\n")
    assert told["terminals"] == {"users": "yield", "user_idle": "10s", "ignore_user": []}


def test_a_program_is_ignored_by_a_filler_only_if_it_is_on_all_its_cards(printed: Any) -> None:
    told = printed(
        "[gpu-all]\ngpus=ALL\nignore_programs=top\n"
        "[gpu-0]\ngpus=0\nignore_programs=left,both\n[gpu-1]\ngpus=1\nignore_programs=right, both\n"
        "[process-two]\ncmd=x\ngpus=0,1\n[process-one]\ncmd=x\ngpus=0\n[process-all]\ncmd=x\ngpus=ALL\n"
    )
    assert [filler["ignore"] for filler in told["filler"]] == [["both", "top"], ["both", "left", "top"], ["top"]]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tty]\nenabled=no\n", ["there is no [process-…], so nothing would ever run"]),
        ("no section\n", ["contains no section headers", "line: 1"]),
        ("[tty]\nenabled\n", ["contains parsing errors", "[line 2]"]),
        ("[tty]\n[tty]\n", ["[line 2]: section 'tty' already exists"]),
        ("[tty]\nenabled=maybe\n[process-x]\ncmd=x\n", ["[tty] enabled: write True or False"]),
        (
            "[defaults]\nsoon=1\n[miner]\ncmd=x\n[process-x]\ncmd=x\ngpus=0-3\n",
            ["gpu_mon does not have [defaults] soon, [miner] cmd"],
        ),
        ("[process-x]\ncmd=x\ngpus=0-3\n", ["[process-x] gpus: write indices, as 0,1, or ALL"]),
        (
            "[defaults]\ninterval_seconds=soon\n[process-x]\ncmd=x\n",
            ["interval_seconds: write whole seconds, as 10"],
        ),
        ("[process-y]\ncmd='x\n", ["[process-y] cmd: No closing quotation"]),
        ("[process-x]\ndir=/tmp\n", ["filler[1].command: the command is empty"]),
    ],
)
def test_mistakes_in_the_file_are_told_at_once(
    fallow: Fallow, tmp_path: pathlib.Path, text: str, says: list[str]
) -> None:
    file = tmp_path / "gpu_mon.conf"
    file.write_text(text)
    done = fallow("compat", "gpu_mon", "-c", str(file))
    assert done.returncode == 78
    assert str(file) in done.stderr
    assert [words for words in says if words not in done.stderr] == []


def test_a_file_that_is_not_there_is_said_to_be_missing(fallow: Fallow) -> None:
    done = fallow("compat", "gpu_mon", "-c", "/no/such/gpu_mon.conf")
    told = "fallow: /no/such/gpu_mon.conf: there is no such file (name another one: --config FILE)\n"
    assert (done.returncode, done.stderr) == (78, told)
