"""The loads without the verb: what they take, what they find, how they let go."""

import json
import subprocess
import sys
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.core.errors import NotEnoughGpus
from fallow.workloads.products import RESULT_WORDS, THREADS, best
from fallow.workloads.simulated import SimulatedWork
from fallow.workloads.work import SIMULATED_SCALE, Ask, Load, MemoryFreed
from tests.conftest import Fallow
from tests.places import LIMIT_S, REPOSITORY
from tests.standin import World

MIB = 2**20
GIB = 2**30


def ignore(wanted_bytes: int) -> None:
    """Of what it is about to take."""


def flipping(fallow: Fallow, *words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.flipping", *words],
        env={**fallow.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.more
def test_a_word_that_was_flipped_in_held_memory_is_one_wrong_word(world: World, fallow: Fallow) -> None:
    assert flipping(fallow, "memory", str(64 * MIB)) == {"before": 0, "after": 1, "held_bytes": 0}


def test_an_operand_that_was_flipped_makes_wrong_results(world: World, fallow: Fallow) -> None:
    found = flipping(fallow, "matmul", str(128 * MIB))
    assert found["before"] == 0
    assert found["after"] > 0


@given(st.integers(0, 2**40), st.floats(0.01, 1.0))
def test_a_share_never_asks_for_more_than_is_free(free: int, share: float) -> None:
    assert 0 <= Ask(Load.MEMORY, verify=False, memory_share=share).wanted(free) <= free


@pytest.mark.parametrize(
    ("capability", "name", "target"),
    [((10, 0), "bf16", "sm_80"), ((9, 0), "bf16", "sm_80"), ((8, 6), "bf16", "sm_80"), ((7, 5), "f16", "sm_75"),
     ((7, 0), "f32", "sm_50"), ((6, 1), "f32", "sm_50")],
)  # fmt: skip
def test_every_card_is_given_the_product_that_its_kind_has(
    capability: tuple[int, int], name: str, target: str
) -> None:
    product = best(capability)
    assert product.name == name
    assert f".target {target}\n" in product.source
    for kernel in ("fallow_fill", "fallow_check", "fallow_compare", "fallow_multiply"):
        assert product.source.count(f".entry {kernel}(") == 1
    assert product.source.count("st.global.v4.f32") * 4 == RESULT_WORDS
    assert f".maxntid {THREADS}, 1, 1" in product.source


def test_a_simulated_load_holds_a_thousandth_and_lets_go_of_it() -> None:
    work = SimulatedWork(Ask(Load.MEMORY, verify=False, memory_share=0.5), 8 * GIB)
    work.begin(ignore)
    assert work.tally().held_bytes == 4 * GIB // SIMULATED_SCALE
    work.free()
    assert work.tally().held_bytes == 0
    work.step()  # does nothing, and does not fail


def test_who_lets_go_first_lets_nothing_be_taken() -> None:
    work = SimulatedWork(Ask(Load.WARM, verify=False, memory_bytes=GIB), 80 * GIB)
    work.free()
    with pytest.raises(MemoryFreed):
        work.begin(ignore)
    assert work.tally().held_bytes == 0


def test_a_simulated_load_that_asks_for_more_than_is_free_takes_nothing() -> None:
    work = SimulatedWork(Ask(Load.MEMORY, verify=False, memory_bytes=100_000 * GIB), 80 * GIB)
    with pytest.raises(NotEnoughGpus, match=r"TiB of the 97.7 TiB that were asked for are missing"):
        work.begin(ignore)
    assert work.tally().held_bytes == 0


def test_letting_go_ends_a_rest_at_once() -> None:
    work = SimulatedWork(Ask(Load.MEMORY, verify=False, memory_bytes=GIB), 80 * GIB)
    work.begin(ignore)
    rested = threading.Thread(target=lambda: [work.step() for _ in range(10_000)])
    rested.start()
    work.free()
    rested.join(LIMIT_S)
    assert not rested.is_alive()
