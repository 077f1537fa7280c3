"""GPUs are the ones that were meant, in every form in which people and schedulers name them."""

import pytest

from fallow.core.errors import WrongUsage
from fallow.core.gpu import Gpu, MigPlace
from fallow.core.selection import select, visible
from tests.core.gpus import idle

CARDS = [idle(index) for index in range(8)]
MIG = [
    idle(0),
    idle(1, uuid="MIG-aaaa", mig=MigPlace(0, "GPU-parent", 7)),
    idle(1, uuid="MIG-bbbb", mig=MigPlace(2, "GPU-parent", 9)),
]


def labels(gpus: tuple[Gpu, ...]) -> list[str]:
    return [gpu.label for gpu in gpus]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0,2", ["0", "2"]),
        ("0-3", ["0", "1", "2", "3"]),
        ("2,0-1", ["2", "0", "1"]),
        ("all", [str(index) for index in range(8)]),
        ("GPU-00000003", ["3"]),
        ("00000003", ["3"]),
        ("5,5", ["5"]),
    ],
)
def test_a_list_names_its_gpus(text: str, expected: list[str]) -> None:
    assert labels(select(text, CARDS)) == expected


@pytest.mark.parametrize("text", ["8", "0-9", "GPU-ffff", "", "0,,1", "x"])
def test_a_gpu_that_is_not_there_is_an_error_that_says_what_is(text: str) -> None:
    with pytest.raises(WrongUsage, match="0, 1, 2, 3, 4, 5, 6, 7"):
        select(text, CARDS)


def test_a_beginning_that_fits_several_is_an_error() -> None:
    with pytest.raises(WrongUsage, match="fits 8"):
        select("GPU-0", CARDS)


@pytest.mark.parametrize("text", ["f", "a1b2c", "GPU", "g", "-a1b2c3"])
def test_a_few_letters_that_a_uuid_begins_with_name_no_gpu(text: str) -> None:
    with pytest.raises(WrongUsage, match=f"there is no GPU '{text}' here"):
        select(text, [idle(0, uuid="GPU-f0000000-0000"), idle(1, uuid="GPU-a1b2c3d4-0000")])


@pytest.mark.parametrize("text", ["GPU-a", "gpu-a1", "a1b2c3", "A1B2C3D4", "a1b2c3d4-0000", "GPU-a1b2c3d4-0000"])
def test_a_uuid_is_meant_by_how_it_begins_after_its_prefix_or_by_six_digits(text: str) -> None:
    assert labels(select(text, [idle(0, uuid="GPU-f0000000-0000"), idle(1, uuid="GPU-a1b2c3d4-0000")])) == ["1"]


def test_mig_instances_are_named_by_slot_or_uuid_or_with_their_card() -> None:
    assert labels(select("1:2", MIG)) == ["1:2"]
    assert labels(select("MIG-aaaa", MIG)) == ["1:0"]
    assert labels(select("1", MIG)) == ["1:0", "1:2"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, [str(index) for index in range(8)]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("3", ["3"]),
        ("3,1", ["3", "1"]),
        (" 3 , 1 ", ["3", "1"]),
        ("3,-1,1", ["3"]),
        ("3,99,1", ["3"]),
        ("1,1", []),
        ("GPU-00000003", ["3"]),
        ("GPU-00000003,GPU-00000001", ["3", "1"]),
        ("GPU-0", []),
    ],
)
def test_an_outer_cuda_visible_devices_lets_through_what_cuda_would_see(
    value: str | None, expected: list[str]
) -> None:
    assert labels(visible(value, CARDS)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("MIG-bbbb", ["1:2"]),
        ("1", ["1:0"]),
        ("0", ["0"]),
    ],
)
def test_an_outer_cuda_visible_devices_can_name_mig_instances(value: str, expected: list[str]) -> None:
    assert labels(visible(value, MIG)) == expected


def test_a_range_that_runs_backwards_is_refused_with_what_was_meant() -> None:
    with pytest.raises(WrongUsage, match="'3-1' runs backwards; write it as 1-3"):
        select("3-1", CARDS)
