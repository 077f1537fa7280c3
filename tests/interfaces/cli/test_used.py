"""A watched `fallow run` ends with one line on what its job used, in which what is unknown is left out."""

import pathlib
import re

import pytest

from fallow.core.money import Prices
from fallow.core.unknown import Unknown
from fallow.engine.jobs.usage import Used
from fallow.interfaces.cli.used import line
from tests.conftest import Fallow
from tests.core.gpus import GIB, idle

NOT_TOLD = Unknown("the driver does not tell")


@pytest.mark.parametrize(
    ("used", "gpus", "prices", "words"),
    [
        (
            Used(22_200.0, 0.71, 43 * GIB, 14_760_000.0),
            2,
            Prices(2.5, currency="USD"),
            "2 GPUs for 6h10m: 71% busy, at most 43.0 GiB, 4.1 kWh, 30.83 USD",
        ),
        (Used(3600.0, 1.0, 0, 90_000.0), 1, Prices(2.5), "1 GPU for 1h: 100% busy, no memory, 25 Wh, cost 2.50"),
        (Used(60.0, NOT_TOLD, GIB, 3600.0), 1, Prices(), "1 GPU for 1m: at most 1.0 GiB, 1.0 Wh"),
        (Used(60.0, NOT_TOLD, NOT_TOLD, NOT_TOLD), 3, Prices(named=(("T4", 1.0),)), "3 GPUs for 1m"),
    ],
)
def test_the_line_has_what_is_known(used: Used, gpus: int, prices: Prices, words: str) -> None:
    assert line(used, [idle(index) for index in range(gpus)], prices) == words


@pytest.mark.more
def test_a_job_that_is_stopped_ends_with_its_line(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    config = tmp_path / "fallow.toml"
    config.write_text('[machine]\nprice = 3600000\ncurrency = "EUR"\n')
    words = ("run", "--gpus", "0", "--warmup", "0s", "--idle-timeout", "1s", "--grace", "1s")
    done = simulated(*words, "--", "sleep", "600", FALLOW_CONFIG=str(config))
    assert done.returncode == 124
    pattern = r"fallow: 1 GPU for \d+(\.\d)?s: \d+% busy, at most \S+ MiB, [\d,]+\.\d\d EUR"
    assert re.fullmatch(pattern, done.stderr.splitlines()[-1]), done.stderr


def test_the_line_is_left_out_where_nothing_is_watched(simulated: Fallow) -> None:
    assert simulated("run", "--", "true").stderr == ""
