"""Newcomers against `fallow fill -- fallow burn` on a real card: none is out of memory, none waits for the filler."""

import time
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Fallow
from tests.gpu.visits import (
    Asks,
    Visit,
    Visited,
    against,
    end,
    failures,
    on_the_empty_card,
    start_fill,
    told,
    until,
    until_filled,
    used_share,
    visit,
)
from tests.interfaces.cli.filled import Fill

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

Report = Callable[[str, object], None]
SMALL = 2 / 140  # 2 GiB of an H200
TORCH: Asks = ("torch",)
SMALL_LIMIT, PIECES_LIMIT, TORCH_LIMIT = 1.1, 1.3, 1.05
# Who wants much in one piece waits until the driver has wiped all that was freed: see docs/benchmarks.md.
WIPED_LIMIT = 1.6
RANKS = 8


@pytest.fixture
def fill(real: Fallow) -> Iterator[Fill]:
    """A card that burn fills."""
    filled = start_fill(real, "--", "fallow", "burn")
    yield filled
    end(filled)


def visits(fill: Fill, asks: Asks, count: int, *before: str) -> list[Visited]:
    """Newcomers, one after the other."""
    came = []
    for _ in range(count):
        until_filled(fill)
        came.append(visit(asks, *before))
        fill.until("given back after")
    return came


@pytest.mark.parametrize(
    ("name", "asks", "count", "limit"),
    # The closer the limit, the more newcomers it takes to tell a wait from the noise of their starts.
    [
        ("70 % at once", (0.7,), 8, WIPED_LIMIT),
        ("70 % in pieces of 2 GiB", (0.7, 2), 12, PIECES_LIMIT),
        ("2 GiB", (SMALL,), 24, SMALL_LIMIT),
        ("95 % at once", (0.95,), 8, None),
    ],
)
def test_a_bare_program_gets_its_memory_and_hardly_waits(
    real: Fallow, report: Report, name: str, asks: Asks, count: int, limit: float | None
) -> None:
    before = on_the_empty_card(asks, count // 2)
    filled = start_fill(real, "--", "fallow", "burn")
    came = visits(filled, asks, count)
    end(filled)
    empty = before + on_the_empty_card(asks, count // 2)
    report(f"newcomers of {name} that ran out of memory, of {count}", failures(came))
    report(f"newcomers of {name}, start to all memory, against empty", told(came, empty))
    assert failures(came) == 0
    assert limit is None or against(came, empty) <= limit


def test_pytorch_has_its_first_tensor_as_soon_as_on_an_empty_card(real: Fallow, report: Report) -> None:
    visit(TORCH)  # loads it from the disk
    before = on_the_empty_card(TORCH, 6)
    filled = start_fill(real, "--", "fallow", "burn")
    came = visits(filled, TORCH, 12)
    end(filled)
    empty = before + on_the_empty_card(TORCH, 6)
    report("PyTorch, 60 GiB, that ran out of memory, of 12", failures(came))
    report("PyTorch, start to first tensor, against empty", told(came, empty))
    assert failures(came) == 0
    assert against(came, empty) <= TORCH_LIMIT


def test_a_newcomer_in_another_pid_namespace_never_runs_out_of_memory(fill: Fill, report: Report) -> None:
    failed = failures(visits(fill, (0.7,), 4, "unshare", "--fork", "--pid", "--mount-proc"))
    report("newcomers of 70 % in another pid namespace that ran out of memory, of 4", failed)
    assert failed == 0


def test_eight_ranks_at_once_never_run_out_of_memory(fill: Fill, report: Report) -> None:
    failed = 0
    for _ in range(3):
        until_filled(fill)
        ranks = [Visit((0.7 / RANKS,)) for _ in range(RANKS)]
        failed += failures([rank.over() for rank in ranks])
        fill.until("given back after")
    report(f"ranks of 70 % in all that ran out of memory, of {3 * RANKS}", failed)
    assert failed == 0


def test_a_newcomer_in_the_middle_of_the_fillers_start_never_runs_out_of_memory(fill: Fill, report: Report) -> None:
    failed, delays = 0, (0.05, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
    for delay_s in delays:
        fill.until("filling it")
        time.sleep(delay_s)  # somewhere between its start and its last chunk
        failed += visit((0.7,)).failed
        until(lambda: used_share() < 0.5)
    report(f"newcomers of 70 % during the filler's start that ran out of memory, of {len(delays)}", failed)
    assert failed == 0
