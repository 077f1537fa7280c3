"""`u` in `fallow top`: who wasted most this week."""

import pathlib
import time

from fallow.interfaces.render.waste_text import fleet_waste_lines
from tests.conftest import Fallow
from tests.interfaces.cli.test_report import record, two_cards
from tests.interfaces.top.driven import Driver, drive


def test_a_person_finds_who_wasted_most_this_week_and_what_it_cost(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    config = tmp_path / "prices.toml"
    config.write_text("[machine]\nprice = 30.0\n")
    config.chmod(0o600)
    simulated.environ["FALLOW_CONFIG"] = str(config)
    record(simulated, two_cards(time.time() - 1200, 1200, simulated=True))

    async def ask(top: Driver) -> None:
        await top.until(lambda: "u Waste" in top.text.splitlines()[-1])
        await top.press("u")
        await top.sees("who wasted most in the last 7 days")
        await top.sees("user wasted of held cost ada 10m 50.0% 5.00 USD bob 10m 100% 5.00 USD")
        assert "nobody" not in top.text, "free time is nobody's waste"
        await top.press("u")
        await top.until(lambda: "who wasted most" not in top.text)

    drive(simulated, ask)


def test_without_history_it_says_who_would_record_it(simulated: Fallow) -> None:
    async def ask(top: Driver) -> None:
        await top.press("u")
        await top.sees("there is no history in")
        await top.sees("`fallow up` records it while it runs")

    drive(simulated, ask)


def test_of_a_fleet_all_hosts_are_added_up_and_a_silent_one_is_named() -> None:
    times = {"busy_s": 0.0, "stuck_s": 0.0}
    told = {
        "since": "2026-11-09T09:00:00Z",
        "until": "2026-11-16T09:00:00Z",
        "currency": None,
        "hosts": [{"name": "gpu1", "error": None}, {"name": "gpu2", "error": "it did not answer"}],
        "lines": [
            {"user": "ada", "idle_s": 60.0, "cost": None, **times},
            {"user": "bob", "idle_s": 7200.0, "cost": None, **times},
            {"user": "-", "idle_s": 0.0, "cost": None, **times},
        ],
    }
    lines = fleet_waste_lines(told)
    assert lines[0] == "2026-11-09 09:00 to 2026-11-16 09:00 UTC"
    assert [line.split() for line in lines if "100%" in line] == [["bob", "2.0h", "100%"], ["ada", "1m", "100%"]]
    assert lines[-2:] == [
        "without money: the config of `fallow up` has no price under [machine]",
        "without gpu2: it did not answer",
    ]
    idle = fleet_waste_lines({**told, "lines": told["lines"][2:]})  # type: ignore[index]
    assert "nobody left a GPU idle in that time, as far as it was watched" in idle
