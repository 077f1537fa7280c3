"""gpu_mon's INI file: both examples of its document, every key, and the fallow.toml that says the same."""

import pathlib
import tomllib
from collections.abc import Callable

import pytest

from fallow.compat.gpu_mon import spec
from fallow.compat.gpu_mon_file import Filler, GpuMonFile, Watched, read
from fallow.compat.gpu_mon_toml import as_toml
from fallow.core.errors import ConfigWrong
from fallow.core.value import replace
from fallow.engine.config.load import understand
from fallow.policies.fill import FillRules
from tests.compat.documents import blocks
from tests.conftest import Fallow

ALL_TOGETHER, EACH_ALONE = blocks("gpu_mon", "ini")
Written = Callable[[str], GpuMonFile]


@pytest.fixture
def written(tmp_path: pathlib.Path) -> Written:
    def write(text: str) -> GpuMonFile:
        path = tmp_path / "gpu_mon.conf"
        path.write_text(text)
        return read(str(path))

    return write


def test_a_file_that_is_not_there_is_said_to_be_missing_and_not_mistaken(fallow: Fallow) -> None:
    done = fallow("compat", "gpu_mon", "-c", "/no/such/gpu_mon.conf")
    told = "fallow: /no/such/gpu_mon.conf: there is no such file (name another one: --config FILE)\n"
    assert (done.returncode, done.stderr) == (78, told)


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


def test_what_is_left_out_has_a_default(written: Written) -> None:
    file = written("[process-x]\ncmd=nice -n 5 'a b' --rate 5%\ngpus=2, 0\n")
    assert file == GpuMonFile(
        10, (), (Filler("process-x", ("nice", "-n", "5", "a b", "--rate", "5%"), (0, 2), None, None),), None, ()
    )
    told = tomllib.loads(as_toml(file, "ada"))
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


def mistakes(written: Written, text: str) -> list[str]:
    with pytest.raises(ConfigWrong) as caught:
        written(text)
    return [mistake.in_file("F") for mistake in caught.value.mistakes]


def test_every_mistake_is_told_at_once_with_its_line(written: Written) -> None:
    assert mistakes(
        written,
        "[defaults]\ninterval_seconds=soon\n\n[gpu-x]\ngpus=0-3\nIgnore: y\n[miner]\n[process-0]\ngpus=0\n"
        "[process-1]\ncmd='x\n[tty]\nenabled=maybe\n",
    ) == [
        "F:2: [defaults] interval_seconds: 'soon': write whole seconds, at least 1",
        "F:5: [gpu-x] gpus: '0-3': write indices, as 0,1, or ALL",
        "F:6: [gpu-x] ignore: there is no such key (gpus, ignore_programs are known)",
        "F:7: [miner]: there is no such section (defaults, gpu-…, process-… and tty are known)",
        "F:8: [process-0] cmd: there is none to run",
        'F:11: [process-1] cmd: "\'x": No closing quotation',
        "F:13: [tty] enabled: 'maybe': write True or False",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[tty]\nenabled=no\n", "F: there is no [process-…], so nothing would ever run"),
        ("no section\n", "F:1: no [section] is above this"),
        ("[tty]\nenabled\n", "F:2: this is neither [section] nor key=value"),
        ("[tty]\n[tty]\n", "F:2: [tty] is there twice"),
        ("[tty]\nenabled=no\nenabled=no\n", "F:3: [tty] enabled: it is there twice"),
    ],
)
def test_what_is_no_file_of_gpu_mon_is_a_sentence(written: Written, text: str, told: str) -> None:
    assert mistakes(written, text) == [told]


@pytest.mark.parametrize(
    "text",
    [
        ALL_TOGETHER,
        EACH_ALONE,
        "[process-my miner!]\ncmd=nice -n 5 'a b'\ngpus=2,0\n",
        "[tty]\nenabled=no\nwhitelist=ada\n[process-a]\ncmd=x\n[process-b]\ncmd=y\ngpus=1\nlog=/a/b.log\n"
        "[process-c]\ncmd=z\ngpus=1,2\n[gpu-1]\ngpus=1\nignore_programs=top\n",
    ],
)
def test_the_fallow_toml_means_the_same(written: Written, text: str) -> None:
    file = written(text)
    config = understand(as_toml(file, "ada"), "fallow.toml")
    gap_s = FillRules().longest_gap_s
    said = [one.spec(config.terminals, gap_s) for one in config.fillers]
    assert {one.user for one in said} == {"ada"}, "a config says whom it runs as; gpu_mon runs it as who calls"
    assert [replace(one, user=None) for one in said] == [spec(file, one) for one in file.fillers]
    cards = ["all" if one.gpus is None else ",".join(map(str, one.gpus)) for one in file.fillers]
    assert [one.gpus for one in config.fillers] == cards
