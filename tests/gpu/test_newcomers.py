"""Newcomers against `fallow fill -- fallow burn` on a real card: none is out of memory, none waits for the filler."""

import time
from collections.abc import Iterator

import pytest

from tests.gpu.conftest import Report, on_the_card
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

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(200)]

SMALL: Asks = (2 / 140,)  # 2 GiB of an H200
LARGE: Asks = (0.7,)
PIECES: Asks = (0.7, 2)
ALMOST_ALL: Asks = (0.95,)
TORCH: Asks = ("torch",)
ON_EMPTY = {LARGE: 6, SMALL: 6, PIECES: 6, ALMOST_ALL: 4, TORCH: 2}
OTHER_NAMESPACE = ("unshare", "--fork", "--pid", "--mount-proc")
RANKS, TIMES = 8, 7
DELAYS_S = (0.05, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)  # somewhere between the filler's start and its last chunk
# Who wants much in one piece waits until the driver has wiped all that was freed: see docs/benchmarks.md.
KINDS = [
    pytest.param(LARGE, 8, 1.6, (), id="70 % at once"),
    pytest.param(SMALL, 8, 1.2, (), id="2 GiB"),
    pytest.param(PIECES, 6, 1.3, (), id="70 % in pieces of 2 GiB"),
    pytest.param(ALMOST_ALL, 5, 1.6, (), id="95 % at once"),
    pytest.param(LARGE, 4, None, OTHER_NAMESPACE, id="70 % from another pid namespace"),
    pytest.param(TORCH, 2, 1.15, (), id="PyTorch, 60 GiB"),
]


@pytest.fixture(scope="module")
def empty() -> dict[Asks, list[Visited]]:
    """Newcomers where nobody is."""
    visit(TORCH)  # loads it from the disk
    return {asks: on_the_empty_card(asks, count) for asks, count in ON_EMPTY.items()}


@pytest.fixture(scope="module")
def fill(tmp_path_factory: pytest.TempPathFactory, empty: dict[Asks, list[Visited]]) -> Iterator[Fill]:
    """A card that burn fills, once it is known what it is like without."""
    assert empty
    real = on_the_card(tmp_path_factory.mktemp("fill"))
    filled = start_fill(real, "--", "fallow", "burn")
    yield filled
    end(filled)
    real.end_all()


@pytest.mark.parametrize(("asks", "count", "limit", "before"), KINDS)
def test_a_newcomer_gets_its_memory_and_hardly_waits(
    fill: Fill,
    empty: dict[Asks, list[Visited]],
    report: Report,
    request: pytest.FixtureRequest,
    asks: Asks,
    count: int,
    limit: float | None,
    before: tuple[str, ...],
) -> None:
    came = []
    for _ in range(count):
        until_filled(fill)
        came.append(visit(asks, *before))
        fill.until("given back after")
    kind = request.node.callspec.id
    report(f"newcomers out of memory, {kind}", f"{failures(came)} of {count}")
    if limit is not None:
        report(f"start to memory, {kind}, against empty", told(came, empty[asks]))
    assert failures(came) == 0
    assert limit is None or against(came, empty[asks]) <= limit


def test_eight_ranks_at_once_never_run_out_of_memory(fill: Fill, report: Report) -> None:
    failed = 0
    for _ in range(TIMES):
        until_filled(fill)
        ranks = [Visit((0.7 / RANKS,)) for _ in range(RANKS)]
        failed += failures([rank.over() for rank in ranks])
        fill.until("given back after")
    report("ranks out of memory, 70 % in all", f"{failed} of {TIMES * RANKS}")
    assert failed == 0


def test_a_newcomer_in_the_middle_of_the_fillers_start_never_runs_out_of_memory(fill: Fill, report: Report) -> None:
    failed = 0
    for delay_s in DELAYS_S:
        fill.until("filling it")
        time.sleep(delay_s)
        failed += visit(LARGE).failed
        until(lambda: used_share() < 0.5)
    report("newcomers out of memory, 70 % during the filler's start", f"{failed} of {len(DELAYS_S)}")
    assert failed == 0
