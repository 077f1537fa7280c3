"""Every block of gpuselect's document, with one word changed, does what the words beside it say."""

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.compat.documents import blocks, commands, ours
from tests.conftest import Fallow
from tests.places import LIMIT_S
from tests.standin import Process, World

GIB = 2**30
A6000, RTX3090 = "NVIDIA RTX A6000", "NVIDIA GeForce RTX 3090"
STEPS = pathlib.Path(__file__).parent / "step_by_step.py"


@pytest.fixture
def lab(world: World) -> World:
    """Eight cards: one computes, one moves memory, one is held by a process; the other five are idle."""
    world[0].utilization = 5
    world[1].memory_utilization = 10
    world[2].compute, world[2].memory_used = [Process(os.getpid(), GIB)], GIB
    world[3].name = world[4].name = A6000
    world[5].name = world[6].name = RTX3090
    return world


IDLE = {"3", "4", "5", "6", "7"}


class Ran:
    """What a block of Python did."""

    def __init__(self, done: subprocess.CompletedProcess[str], record: pathlib.Path) -> None:
        self.out, self.err = done.stdout, done.stderr
        assert done.returncode == 0, done.stderr
        told = json.loads(record.read_text())
        self.steps: list[dict[str, Any]] = told["steps"]
        self.kept: dict[str, list[dict[str, Any]]] = told["kept"]

    def calls(self) -> list[tuple[str, str | None]]:
        """What each call of gpuselect gave; CUDA_VISIBLE_DEVICES must say the same."""
        made = [step for step in self.steps if step["does"].startswith("gpuselect(")]
        assert all(step["gave"] == step["cvd"] for step in made)
        return [(step["does"], step["gave"]) for step in made]


@pytest.fixture
def run_block(fallow: Fallow, tmp_path: pathlib.Path) -> Callable[..., Ran]:
    def run(block: str, before: str = "", **variables: str) -> Ran:
        program, record = tmp_path / "block.py", tmp_path / "record.json"
        program.write_text(before + ours(block))
        (tmp_path / "torch.py").write_text("import os\nprint('torch sees', os.environ['CUDA_VISIBLE_DEVICES'])\n")
        environ = {**fallow.environ, **variables, "PYTHONPATH": str(tmp_path)}
        words = [sys.executable, str(STEPS), str(program), str(record)]
        done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        return Ran(done, record)

    return run


def python_block(mark: str) -> str:
    (found,) = (block for block in blocks("gpuselect", "python") if mark in block)
    return found


TESTED = (
    "import torch",
    "import other packages",
    'name="A6000"',
    "util=10",
    "devices=[0, 1]",
    "custom_select",
    "silent=True",
    "setLevel",
    "gpustatus",
)


def test_every_block_of_the_document_is_run_below() -> None:
    assert len(blocks("gpuselect", "python")) == len({python_block(mark) for mark in TESTED}) == len(TESTED)
    assert len(blocks("gpuselect", "shell")) == 3
    assert len(blocks("gpuselect", "bash")) == 1


def test_two_lines_in_a_script_give_it_an_idle_gpu_before_torch_is_loaded(lab: World, run_block: Any) -> None:
    ran = run_block(python_block("import torch"))
    ((_, gave),) = ran.calls()
    assert gave in IDLE
    assert ran.out == f"torch sees {gave}\n"


def test_it_returns_the_new_value(lab: World, run_block: Any) -> None:
    ((_, gave),) = run_block(python_block("import other packages")).calls()
    assert gave in IDLE


def test_gpus_of_another_name_are_excluded(lab: World, run_block: Any) -> None:
    (_, one), (_, two) = run_block(python_block('name="A6000"')).calls()
    assert one in {"3", "4"}
    assert two == "3,4", "a second call replaces the first one's choice, and is not bound by it"


def test_thresholds_can_be_relaxed(lab: World, run_block: Any) -> None:
    for card in lab:
        card.utilization = 90
    lab[2].utilization = 10
    ((_, gave),) = run_block(python_block("util=10")).calls()
    assert gave == "2", "10 % and one other process are allowed"


def test_devices_are_given_if_they_pass_the_filters(lab: World, run_block: Any, fallow: Fallow) -> None:
    lab[0].utilization = lab[1].memory_utilization = 0
    assert run_block(python_block("devices=[0, 1]")).calls() == [
        ("gpuselect(devices=0)", "0"),
        ("gpuselect(devices=[0, 1])", "0,1"),
    ]
    lab[1].utilization = 50
    with pytest.raises(AssertionError, match="need 2 GPUs, 1 available"):
        run_block(python_block("devices=[0, 1]"))


def test_a_selector_overrides_every_filter_but_the_count(lab: World, run_block: Any) -> None:
    lab[5].utilization = 6
    lab[6].utilization, lab[6].memory_utilization = 5, 80
    lab[6].compute, lab[6].memory_used = [Process(os.getpid(), GIB)], GIB
    ((_, gave),) = run_block(python_block("custom_select")).calls()
    assert gave == "6"


def test_a_selector_is_shown_every_field_of_the_document(lab: World, run_block: Any) -> None:
    lab[2].utilization, lab[2].memory_utilization, lab[2].temperature_c = 30, 20, 55
    lab.fault("nvmlDeviceGetUtilizationRates", card=4, error=999)
    ran = run_block(
        "from gpuselect import gpuselect, GpuInfo\nseen = []\n"
        "gpuselect(count=1, selector=lambda gpu: seen.append(gpu._asdict()) or gpu.device == 2)\n"
    )
    assert [gpu["device"] for gpu in ran.kept["seen"]] == [0, 1, 2, 3, 5, 6, 7], "unknown is never shown as idle"
    wanted = {"device": 2, "name": lab[2].name, "util": 30, "mem_util": 20, "processes": 1}
    assert ran.kept["seen"][2].items() >= wanted.items()
    assert ran.kept["seen"][2]["temperature"] == 55
    assert ran.calls()[0][1] == "2"


def test_too_few_are_an_exception_or_an_empty_value(lab: World, run_block: Any) -> None:
    block, import_it = python_block("silent=True"), "from fallow.compat import gpuselect\n"
    assert run_block(block, import_it).out == "", "there are four"
    for card in (3, 4, 5):
        lab[card].utilization = 90
    out = run_block(block, import_it).out.splitlines()
    assert out == ["Failed to select GPUs: need 4 GPUs, 2 available", "Failed to select GPUs"]


def test_too_few_are_too_few_even_where_the_machine_has_no_more(make_world: Any, run_block: Any) -> None:
    make_world(cards=2)
    out = run_block(python_block("silent=True"), "from fallow.compat import gpuselect\n").out.splitlines()
    assert out == ["Failed to select GPUs: 4 GPUs wanted, and this machine has 2", "Failed to select GPUs"]


def test_the_logger_has_its_name_and_tells_more_at_debug(lab: World, run_block: Any) -> None:
    ran = run_block(python_block("setLevel"))
    assert "GPU count: 8" in ran.err
    assert f"CUDA_VISIBLE_DEVICES={ran.calls()[0][1]}" in ran.err
    assert run_block(python_block("import other packages")).err == "", "only where it is asked for"


def test_the_state_of_the_visible_gpus_and_of_all(lab: World, run_block: Any) -> None:
    lab[2].performance_state, lab[2].power_mw, lab[2].temperature_c = 8, 91_000, 44
    ran = run_block(python_block("gpustatus"), CUDA_VISIBLE_DEVICES=f"2,{lab[7].uuid}")
    assert [gpu["device"] for gpu in ran.kept["gpu_info"]] == [2, 7]
    assert [gpu["device"] for gpu in ran.kept["all_gpu_info"]] == list(range(8))
    assert ran.kept["gpu_info"][0] == {
        "device": 2,
        "name": lab[2].name,
        "utilization": 0,
        "mem_utilization": 0,
        "processes": 1,
        "performance_state": 8,
        "power_usage": 91_000,
        "temperature": 44,
    }


def test_a_lost_card_costs_its_own_row_and_no_other(lab: World, run_block: Any) -> None:
    lab.fault("*", card=3, error=15)
    rows = run_block(python_block("gpustatus")).kept["all_gpu_info"]
    assert [row["device"] for row in rows if row["utilization"] is None] == [3]
    assert run_block("from gpuselect import gpuselect\ngpuselect(count=4)\n").calls()[0][1] == "4,5,6,7"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("gpuselect(count=0)", "GPU count must be >= 1"),
        ("gpuselect(devices=9, silent=True)", "Invalid device ID 9"),
        ("gpuselect(devices=1, name='A6000')", "Use only one of 'devices' and 'name' parameters"),
        ("gpuselect(util=-1)", "Utilization/process count thresholds must be >= 0"),
    ],
)
def test_wrong_parameters_are_exceptions(lab: World, run_block: Any, call: str, says: str) -> None:
    block = f"try:\n    {call}\nexcept Exception as error:\n    print(error)\n"
    assert run_block(block, "from fallow.compat import gpuselect\n").out == f"{says}\n"


def test_the_value_can_be_had_without_setting_it(lab: World, run_block: Any) -> None:
    ran = run_block("from gpuselect import gpuselect\ngpuselect(set_cvd=False, name='3090', count=2)\n")
    assert (ran.steps[-1]["gave"], ran.steps[-1]["cvd"]) == ("5,6", None)


def test_an_outer_allocation_binds(lab: World, run_block: Any) -> None:
    block = "from gpuselect import gpuselect\ngpuselect()\ngpuselect(count=2)\n"
    ran = run_block(block, CUDA_VISIBLE_DEVICES="3,7")
    assert ran.calls()[0][1] in {"3", "7"}
    assert ran.calls()[1][1] == "3,7"


FOO = "import os, sys\nprint(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['CUDA_DEVICE_ORDER'], *sys.argv[1:])\n"


@pytest.fixture
def shell(fallow: Fallow, tmp_path: pathlib.Path) -> Callable[[str], str]:
    """Runs a line of the document where its scripts are; what it prints."""
    for name in ("foo.py", "my_scripy.py"):
        (tmp_path / name).write_text(FOO)
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\n')
    docker.chmod(0o755)
    environ = {**fallow.environ, "PATH": f"{tmp_path}:{fallow.environ['PATH']}"}

    def run(line: str) -> str:
        words = ["bash", "-c", ours(line)]
        done = subprocess.run(
            words, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout

    return run


LINES = [line for kind in ("shell", "bash") for block in blocks("gpuselect", kind) for line in commands(block)]


def test_every_line_is_one_of_those_below() -> None:
    assert [line for line in LINES if line not in EXPECTED] == []
    assert len(EXPECTED) == len(LINES) == 7


IN_PCI_ORDER = "PCI_BUS_ID"
EXPECTED: dict[str, set[str]] = {
    "gpuselect -- python3 my_scripy.py arg1 arg2": {f"{gpu} {IN_PCI_ORDER} arg1 arg2\n" for gpu in IDLE},
    "gpuselect --count 1 --name 3090": {"5\n", "6\n"},
    "gpuselect -- python foo.py": {f"{gpu} {IN_PCI_ORDER}\n" for gpu in IDLE},
    "gpuselect --count 2 -- python foo.py": {
        f"{one},{two} {IN_PCI_ORDER}\n" for one in sorted(IDLE) for two in sorted(IDLE) if one < two
    },
    "gpuselect --name A6000 -- python foo.py": {f"{gpu} {IN_PCI_ORDER}\n" for gpu in "34"},
    "gpuselect --util 5 --mem_util 10 -- python foo.py": {f"{gpu} {IN_PCI_ORDER}\n" for gpu in {*IDLE, "0", "1"}},
    r"docker run --gpus \"device=$(gpuselect --count 2 --name 3090)\" --rm -it gpu_container nvidia-smi": {
        'run\n--gpus\n"device=5,6"\n--rm\n-it\ngpu_container\nnvidia-smi\n'
    },
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_the_document_does_what_it_says(lab: World, shell: Any, line: str) -> None:
    assert shell(line) in EXPECTED[line]


def test_relaxed_percentages_let_the_busy_in_and_strict_ones_do_not(lab: World, shell: Any, fallow: Fallow) -> None:
    for card in range(2, 8):
        lab[card].utilization = 90
    (line,) = (line for line in LINES if "--mem_util" in line)
    assert shell(line) in {f"{gpu} {IN_PCI_ORDER}\n" for gpu in "01"}
    assert fallow("compat", "gpuselect", "--util", "4", "--mem_util", "9").returncode == 75


def test_short_options(lab: World, fallow: Fallow) -> None:
    assert fallow("compat", "gpuselect", "-c", "2", "-n", "3090").stdout == "5,6\n"
    assert fallow("compat", "gpuselect", "-d", "3,7").stdout == "3,7\n"
    assert fallow("compat", "gpuselect", "-d", "0", "-u", "5").stdout == "0\n"
    assert fallow("compat", "gpuselect", "-d", "1", "-m", "10").stdout == "1\n"
    assert fallow("compat", "gpuselect", "-d", "2", "-p", "1").stdout == "2\n"
    assert fallow("compat", "gpuselect", "-d", "7", "-q").stdout == ""
    told = fallow("compat", "gpuselect", "-d", "7", "-D")
    assert (told.stdout, "GPU count: 8" in told.stderr) == ("7\n", True)


def test_the_command_s_exit_code_is_its_own_and_its_words_are_not_ours(lab: World, fallow: Fallow) -> None:
    done = fallow("compat", "gpuselect", "--", "sh", "-c", 'echo "$@"; exit 7', "sh", "-c", "--", "--help")
    assert (done.returncode, done.stdout) == (7, "-c -- --help\n")
    assert fallow("compat", "gpuselect", "no-such-command").returncode == 127


def test_cards_that_run_a_command_are_nobody_else_s(lab: World, fallow: Fallow) -> None:
    job = fallow.start("compat", "gpuselect", "-c", "5", "--", "sh", "-c", "echo up; read line")
    assert job.stdout is not None
    assert job.stdout.readline() == "up\n"
    refused = fallow("compat", "gpuselect")
    assert refused.returncode == 75
    assert "claimed by" in refused.stderr
    job.communicate("\n", timeout=LIMIT_S)
    assert fallow("compat", "gpuselect").returncode == 0
