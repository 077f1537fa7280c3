"""`fallow pick` prints idle GPUs and nothing else."""

import json
import os
import subprocess
from collections.abc import Callable

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill
from tests.places import LIMIT_S
from tests.standin import MigInstance, Process, World

GIB = 2**30


UUID_3 = "GPU-fa110003-"


@pytest.mark.parametrize(
    ("words", "outer", "given"),
    [
        ("", None, "2"),  # the coolest
        ("-n 2", None, "1,7"),  # connected by NVLink
        ("-n 2 --gpus 0-5", None, "2,3"),  # the nearest common ancestor comes next
        ("-n 7 --order index", None, "0,1,2,3,4,5,7"),
        ("--name a100", None, "5"),
        ("--gpus 3-4 -n 2", None, "3,4"),
        (f"--gpus {UUID_3}", None, "3"),
        ("--gpus 6 --max-processes 1", None, "6"),  # memory of a process that cannot be seen
        ("", "3", "3"),
        ("", UUID_3, "3"),
        ("", "3,99", "3"),
        ("--gpus 3,4 -n 2 --format env", None, "export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=3,4"),
        ("--gpus 3,4 -n 2 --format docker", None, '"device=3,4"'),
    ],
)
def test_the_gpus_that_were_asked_for_are_printed_and_nothing_else(
    world: World, fallow: Fallow, words: str, outer: str | None, given: str
) -> None:
    for card in world:
        card.temperature_c = 60
    world[2].temperature_c, world[5].name, world[6].memory_used = 31, "NVIDIA A100-SXM4-80GB", 70 * GIB
    world.link(1, 7, nvlink=True)
    world.link(2, 3, level=10)
    done = fallow("pick", *words.split(), **({} if outer is None else {"CUDA_VISIBLE_DEVICES": outer}))
    assert (done.returncode, done.stdout) == (0, f"{given}\n")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("--max-util 10% --max-mem-util 5", 75),
        ("--max-util 9 --max-mem-util 5 --max-processes 1", 75),
        ("--max-util 10% --max-mem-util 5 --max-processes 1", 0),
        ("--max-util 10% --max-mem-util 5 --max-processes 1 --min-free 79.5GiB", 75),
    ],
)
def test_limits_can_be_relaxed(world: World, fallow: Fallow, words: str, code: int) -> None:
    for card in world:
        card.utilization, card.memory_utilization = 10, 5
        card.compute, card.memory_used = [Process(os.getpid(), GIB)], GIB
    assert fallow("pick", *words.split()).returncode == code


def test_a_card_that_anybody_uses_or_holds_is_not_given_and_each_is_told_why(world: World, fallow: Fallow) -> None:
    world[0].utilization = 1
    world[1].memory_utilization = 2
    world[2].compute = [Process(os.getpid(), GIB)]
    world[3].memory_used = 3 * GIB
    world.fault("*", card=4, error=15)
    world.fault("nvmlDeviceGetUtilizationRates", card=5, error=999)
    done = fallow("pick", "-n", "3")
    assert done.returncode == 75
    assert done.stdout == ""
    assert done.stderr.splitlines()[0] == "fallow: need 3 GPUs, 2 available"
    for card, why in enumerate(
        ["utilization 1%", "memory traffic 2%", "held by pid", "no visible process", "lost", "Unknown"]
    ):
        assert any(line.startswith(f"fallow: GPU {card}: ") and why in line for line in done.stderr.splitlines())
    assert str(os.getpid()) in done.stderr
    assert fallow("pick", "-n", "2").stdout == "6,7\n"


def test_those_that_were_asked_for_are_told_first_and_all_others_in_one_line(world: World, fallow: Fallow) -> None:
    world[1].utilization = 1
    first, *others = fallow("pick", "--gpus", "1").stderr.splitlines()[1:]
    assert first.startswith("fallow: GPU 1: utilization 1%")
    assert others == ["fallow: GPU 0,2-7: not among --gpus"]
    hidden = fallow("pick", "--gpus", "1,3,4", "-n", "1", CUDA_VISIBLE_DEVICES="1").stderr.splitlines()[2:]
    assert hidden == ["fallow: GPU 0,2,5-7: not among --gpus", "fallow: GPU 3,4: hidden by CUDA_VISIBLE_DEVICES"]


def test_indices_on_a_machine_with_several_models_are_told_how_they_are_read(world: World, fallow: Fallow) -> None:
    assert fallow("pick", CUDA_VISIBLE_DEVICES="3").stderr == "", "all cards are alike"
    world[0].name = "NVIDIA A100-SXM4-80GB"
    assert "read in PCI order" in fallow("pick", CUDA_VISIBLE_DEVICES="3").stderr
    assert "read in PCI order" in fallow("run", "--", "true", CUDA_VISIBLE_DEVICES="4").stderr
    assert fallow("pick", CUDA_VISIBLE_DEVICES="5", CUDA_DEVICE_ORDER="PCI_BUS_ID").stderr == ""
    assert fallow("pick", CUDA_VISIBLE_DEVICES=world[6].uuid).stderr == ""


@pytest.mark.parametrize("outer", ["", "-1", "NoDevFiles", "99"])
def test_an_outer_cuda_visible_devices_that_hides_all_leaves_none(world: World, fallow: Fallow, outer: str) -> None:
    done = fallow("pick", "--wait", CUDA_VISIBLE_DEVICES=outer)
    assert done.returncode == 75, "waiting would not help"
    assert "CUDA_VISIBLE_DEVICES" in done.stderr


def test_an_outer_allocation_of_a_mig_instance_binds(world: World, fallow: Fallow) -> None:
    world[1].mig = [MigInstance(), MigInstance()]
    second = json.loads(fallow("status", "--json", "1:1").stdout)["gpus"][0]["uuid"]
    done = fallow("pick", "--format", "uuid", CUDA_VISIBLE_DEVICES=second)
    assert done.stdout == f"{second}\n"


def test_mig_instances_are_named_by_uuid_since_cuda_knows_no_index_of_theirs(
    make_world: Callable[..., World], fallow: Fallow
) -> None:
    world = make_world(cards=1)
    world[0].mig = [MigInstance()]
    assert fallow("pick").stdout.startswith("MIG-")


def test_the_printed_names_work_for_programs_and_shells(world: World, fallow: Fallow) -> None:
    only = ("pick", "--gpus", "3,4", "-n", "2", "--format")
    assert fallow(*only, "uuid").stdout == f"{world[3].uuid},{world[4].uuid}\n"
    assert [gpu["index"] for gpu in json.loads(fallow(*only, "json").stdout)["gpus"]] == [3, 4]
    script = 'eval "$(fallow pick --gpus 5 --format env)" && echo "$CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES"'
    done = subprocess.run(["sh", "-c", script], env=fallow.environ, capture_output=True, text=True, check=True)
    assert done.stdout == "PCI_BUS_ID 5\n"


def test_waiting_ends_when_a_card_is_free(world: World, fallow: Fallow) -> None:
    for card in world:
        card.utilization = 90
    waiting = fallow.start("pick", "--wait")
    assert waiting.stderr is not None
    assert "waiting for 1 GPU" in waiting.stderr.readline()
    world[6].utilization = 0
    assert waiting.communicate(timeout=LIMIT_S)[0] == "6\n"


def test_an_empty_card_is_given_before_a_filled_one(simulated: Fallow) -> None:
    filling = Fill(simulated.start("fill", "--gpus", "0,1,3", "--idle-for", "0", "--", "sleep", "1000"))
    filling.until("filling it", times=3)
    for order in ("best", "random", "index"):
        assert simulated("pick", "--dry-run", "--order", order).stdout == "2\n"


@pytest.mark.parametrize("words", [("pick",), ("run", "--wait", "1s", "--", "true")])
def test_a_held_card_without_samples_is_unknown_to_everybody_who_picks(
    world: World, fallow: Fallow, words: tuple[str, ...]
) -> None:
    world.fault("nvmlDeviceGetSamples", error=3)
    world[0].compute = [Process(os.getpid(), 2**30)]
    done = fallow(words[0], "--gpus", "0", "--max-processes", "1", *words[1:])
    assert (done.returncode, done.stdout) == (75, "")
    assert "GPU 0: its utilization is unknown" in done.stderr
