"""`u` in `fallow top`: who wasted most this week."""

import pathlib
import time

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
