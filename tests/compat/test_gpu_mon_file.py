"""gpu_mon's INI file: both examples of its document, every key, and the fallow.toml that says the same."""

import pathlib
import tomllib
from collections.abc import Callable

import pytest

from fallow.compat.gpu_mon_file import Filler, GpuMonFile, Watched, as_toml, read
from fallow.core.errors import WrongUsage
from tests.compat.documents import blocks

ALL_TOGETHER, EACH_ALONE = blocks("gpu_mon", "ini")
Written = Callable[[str], GpuMonFile]


@pytest.fixture
def written(tmp_path: pathlib.Path) -> Written:
    def write(text: str) -> GpuMonFile:
        path = tmp_path / "gpu_mon.conf"
        path.write_text(text)
        return read(str(path))

    return write


def test_the_first_example_is_one_program_over_all_cards(written: Written) -> None:
    assert written(ALL_TOGETHER) == GpuMonFile(
        interval_s=10,
        watched=(Watched(None, frozenset({"nvidia-smi"})),),
        fillers=(Filler("process-all", ("miner-run",), None, "/tmp", "/dev/null"),),
        user_idle_s=300,
        ignore_users=("user1", "user2"),
    )


def test_the_second_example_is_a_program_for_each_card(written: Written) -> None:
    assert written(EACH_ALONE).fillers == (
        Filler("process-0", ("miner-run",), (0,), "/tmp", "/dev/null"),
        Filler("process-1", ("miner-run",), (1,), "/tmp", "/dev/null"),
    )


def test_the_first_example_in_a_fallow_toml(written: Written) -> None:
    assert tomllib.loads(as_toml(written(ALL_TOGETHER))) == {
        "terminals": {"users": "yield", "user_idle": "300s", "ignore_user": ["user1", "user2"]},
        "filler": [
            {
                "name": "process-all",
                "command": ["miner-run"],
                "gpus": "all",
                "together": True,
                "idle_for": "10s",
                "ignore": ["nvidia-smi"],
                "cwd": "/tmp",
                "log": "/dev/null",
            }
        ],
    }


def test_the_second_example_in_a_fallow_toml(written: Written) -> None:
    fillers = tomllib.loads(as_toml(written(EACH_ALONE)))["filler"]
    assert [(filler["name"], filler["gpus"], filler["together"]) for filler in fillers] == [
        ("process-0", "0", False),
        ("process-1", "1", False),
    ]


def test_what_is_left_out_has_a_default(written: Written) -> None:
    file = written("[process-x]\ncmd=nice -n 5 'a b' --rate 5%\ngpus=2, 0\n")
    assert file == GpuMonFile(
        10, (), (Filler("process-x", ("nice", "-n", "5", "a b", "--rate", "5%"), (0, 2), None, None),), None, ()
    )
    told = tomllib.loads(as_toml(file))
    assert told["terminals"] == {"users": "ignore"}
    assert told["filler"][0]["together"] is True
    assert told["filler"][0]["command"] == ["nice", "-n", "5", "a b", "--rate", "5%"]


def test_a_program_is_ignored_by_a_filler_only_if_it_is_on_all_its_cards(written: Written) -> None:
    file = written(
        "[gpu-all]\ngpus=ALL\nignore_programs=top\n"
        "[gpu-0]\ngpus=0\nignore_programs=left,both\n[gpu-1]\ngpus=1\nignore_programs=right,both\n"
        "[process-two]\ncmd=x\ngpus=0,1\n[process-one]\ncmd=x\ngpus=0\n[process-all]\ncmd=x\ngpus=ALL\n"
    )
    assert [file.ignored_by(filler) for filler in file.fillers] == [
        ("both", "top"),
        ("both", "left", "top"),
        ("top",),
    ]


def test_every_mistake_is_told_at_once(written: Written, tmp_path: pathlib.Path) -> None:
    with pytest.raises(WrongUsage) as caught:
        written(
            "[defaults]\ninterval_seconds=soon\n[gpu-x]\ngpus=0-3\nignore=y\n[miner]\n[process-0]\ngpus=0\n"
            "[tty]\nenabled=maybe\n"
        )
    for part in (
        "interval_seconds=soon in [defaults]: write whole seconds",
        "gpus=0-3 in [gpu-x]: write indices, as 0,1, or ALL",
        "there is no key 'ignore' in [gpu-x]",
        "there is no section [miner]",
        "[process-0] has no cmd",
        "enabled=maybe in [tty]: write True or False",
    ):
        assert part in str(caught.value)
    with pytest.raises(WrongUsage, match="nothing would ever run"):
        written("[tty]\nenabled=no\n")
    with pytest.raises(WrongUsage, match="cannot be read"):
        read(str(tmp_path / "not-there"))
    with pytest.raises(WrongUsage, match="cannot be read"):
        written("no section\n")
