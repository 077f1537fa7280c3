"""Plots as paths and texts: a gap is a gap, and every step tells its time, its value and who it was."""

from collections.abc import Sequence
from datetime import UTC

import pytest

from fallow.core.activity import Activity
from fallow.core.money import Prices
from fallow.engine.history.series import SPANS, Step
from fallow.interfaces.render.plots import Plot, Scale, plots

HOUR = SPANS["1h"]
BEGIN_MS = 1_790_002_800_000
DOLLARS = Prices(2.0, (), "USD")


def made(values: Sequence[float | None], prices: Prices = DOLLARS, **more: object) -> dict[str, Plot]:
    steps = [
        Step(
            BEGIN_MS + number * 30_000,
            BEGIN_MS + (number + 1) * 30_000,
            gpus=1 if each is not None else 0,
            utilization=each,
            spent_ms={} if each is None else {Activity.IDLE: 30_000},
            cost=None if each is None or not prices.given else 2.0 / 120,
            users=() if each is None else ("ada",),
            **more,  # type: ignore[arg-type]
        )
        for number, each in enumerate(values)
    ]
    return {plot.name: plot for plot in plots(steps, HOUR, UTC, prices, Scale(80 * 2**30, 700.0))}


def test_each_stretch_without_a_gap_is_a_line_of_its_own() -> None:
    plot = made([0.5, 0.5, None, 1.0])["utilization"]
    assert plot.lines == ("M0.0 50.0H500.0", "M750.0 0.0H1000.0")
    assert plot.areas == ("M0.0 50.0H500.0V100H0.0Z", "M750.0 0.0H1000.0V100H750.0Z")
    assert made([0.0, 1.0])["utilization"].lines == ("M0.0 100.0H500.0V0.0H1000.0",), "a level for each step"


def test_a_step_tells_its_time_its_value_and_who_it_was() -> None:
    first, gap = made([0.541, None])["utilization"].spots
    assert first.text == "15:00:00: 54%; ada"
    assert first.y == pytest.approx(45.9)
    assert (gap.text, gap.y) == ("15:00:30: not known", None)


def test_what_is_never_read_is_said_to_be_unknown_and_not_drawn() -> None:
    plot = made([0.5, 0.5])["temperature"]
    assert (plot.told, plot.lines, plot.areas) == ("not known", (), ())


def test_axes_go_as_far_as_the_gpu_does() -> None:
    found = made([0.5])
    assert [mark.text for mark in found["utilization"].values] == ["0 %", "25 %", "50 %", "75 %", "100 %"]
    assert found["memory"].values[-1].text == "80 GiB"
    assert found["power"].values[-1].text == "800 W"
    assert [mark.at for mark in found["utilization"].values] == [100, 75, 50, 25, 0], "from the top"


def test_cost_is_money_an_hour_and_in_all() -> None:
    plot = made([0.5, None, 0.5])["cost"]
    assert (plot.title, plot.told) == ("Cost of idle GPUs, USD an hour", "0.03 USD in all")
    assert [(bar.x, bar.y, bar.height) for bar in plot.bars] == [(0.0, 0.0, 100.0), (666.67, 0.0, 100.0)]
    assert plot.spots[0].text == "15:00:00: 0.02 USD: <1 min idle; ada"
    assert plot.spots[1].text == "15:00:30: not watched"
    assert plot.values[-1].text == "2.0", "two dollars an hour"


def test_a_cost_that_rounds_to_nothing_is_a_low_bar_on_an_axis_of_cents() -> None:
    cheap = Prices(0.002, (), "USD")
    step = Step(BEGIN_MS, BEGIN_MS + 30_000, gpus=1, spent_ms={Activity.IDLE: 30_000}, cost=0.002 / 120)
    plot = {each.name: each for each in plots([step], HOUR, UTC, cheap)}["cost"]
    assert [mark.text for mark in plot.values] == ["0.00", "0.01", "0.02", "0.03", "0.04"]
    assert plot.bars[0].height < 10


def test_without_a_price_it_is_the_number_of_idle_gpus() -> None:
    plot = made([0.5, 0.5], Prices())["cost"]
    assert (plot.title, plot.told, plot.values[-1].text) == ("Idle GPUs", "1 min in all", "1.00")
    assert len(plot.bars) == 1, "equal neighbours are one bar"


def test_many_users_are_the_first_three_and_how_many_more() -> None:
    steps = [Step(BEGIN_MS, BEGIN_MS + 30_000, 1, 0.1, users=("ada", "?", "carol", "dan", "erin"))]
    assert plots(steps, HOUR, UTC, DOLLARS)[0].spots[0].text == "15:00:00: 10%; ada, somebody, carol and 2 more"


def test_a_step_of_which_only_a_part_was_watched_costs_as_much_an_hour_as_that_part() -> None:
    spent, cost = {Activity.IDLE: 60_000}, 3.0 / 60
    whole = Step(BEGIN_MS, BEGIN_MS + 600_000, 1, spent_ms={Activity.IDLE: 600_000}, cost=0.5, watched_ms=600_000)
    begun = Step(BEGIN_MS + 600_000, BEGIN_MS + 900_000, 1, spent_ms=spent, cost=cost, watched_ms=60_000)
    *_, drawn = plots((whole, begun), SPANS["24h"], UTC, Prices(3.0, (), "USD"))
    first, last = drawn.spots
    assert first.y == last.y, "one GPU is idle all the time, at 3 USD an hour"
