"""`fallow report`: the hours of history, for people, programs and spreadsheets; sentences where there are none."""

import csv
import datetime
import io
import json
import pathlib
import time
from collections.abc import Iterable

import pytest

from fallow.core.activity import Activity
from fallow.core.gpu_status import Status
from fallow.core.owner import Owner, OwnerKind
from fallow.engine.history.writer import HistoryWriter
from tests.conftest import Fallow
from tests.engine.history.life import gpu_status, holder
from tests.interfaces.cli.filled import Fill
from tests.places import NO_DAEMON, REPOSITORY

HOUR_S = 3600


def record(fallow: Fallow, statuses: Iterable[Status]) -> None:
    history = HistoryWriter(str(fallow.state), print)
    for number, one in enumerate(statuses):
        history.record(one)
        if number % 1000 == 0:
            assert history.settle(60.0)
    history.close()


def two_cards(begin_s: float, seconds: int, simulated: bool = False) -> Iterable[Status]:
    """Card 0 is shared by two people and fallow, card 1 is busy and then free."""
    shared = gpu_status(
        0, Activity.IDLE, holder(1, "ada", "jupyter-lab"), holder(2, "bob", owner=Owner(OwnerKind.SLURM, "42", "42"))
    )
    busy, free = gpu_status(1, Activity.BUSY, holder(3, "ada", "=1+1")), gpu_status(1, Activity.FREE)
    for second in range(seconds + 1):
        yield Status("box", simulated, begin_s + second, (shared, busy if second <= seconds / 2 else free))


@pytest.fixture
def recorded(fallow: Fallow) -> Fallow:
    """Two hours of two cards, the last of them now."""
    fallow.environ["TZ"] = "UTC"
    record(fallow, two_cards(time.time() - 2 * HOUR_S, 2 * HOUR_S))
    return fallow


def test_a_table_by_gpu_adds_up(recorded: Fallow) -> None:
    done = recorded("report", "--price", "$2/h")
    assert done.returncode == 0, done.stderr
    head, *rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert done.stdout.startswith("box: 2 GPUs (NVIDIA H100 80GB HBM3), ")
    assert head == ["GPU", "free", "busy", "idle", "observed", "kWh", "cost"], "what was never seen has no column"
    assert rows[0] == ["0", "0", "0", "2.0h", "2.0h", "0.24", "$4.00"]
    assert rows[1] == ["1", "1.0h", "1.0h", "0", "2.0h", "0.24", "$0.00"]
    assert rows[2] == ["all", "1.0h", "1.0h", "2.0h", "4.0h", "0.48", "$4.00"]


def test_without_a_price_there_is_no_cost(recorded: Fallow) -> None:
    assert "cost" not in recorded("report").stdout
    told = json.loads(recorded("report", "--format", "json").stdout)
    assert told["total"]["cost"] is None
    assert "no price" in told["total"]["unknown"]["cost"]


def test_time_on_a_shared_card_is_shared_out(recorded: Fallow) -> None:
    told = json.loads(recorded("report", "--by", "user", "--format", "json", "--price", "1").stdout)
    users = {line["user"]: line for line in told["lines"]}
    for name in ("ada", "bob"):
        assert users[name]["idle_s"] == pytest.approx(HOUR_S, abs=0.01)
    assert users["ada"]["busy_s"] == pytest.approx(HOUR_S, abs=1)
    assert users["-"]["free_s"] == pytest.approx(HOUR_S, abs=1)
    assert users["bob"]["cost"] == 1.0
    assert sum(line["observed_s"] for line in told["lines"]) == told["total"]["observed_s"] == 4 * HOUR_S


@pytest.mark.as_root
def test_jobs_are_told_with_their_user(recorded: Fallow) -> None:
    told = json.loads(recorded("report", "--by", "job", "--format", "json").stdout)
    assert {(line["job"], line["user"]) for line in told["lines"]} == {
        ("jupyter-lab", "ada"),
        ("slurm:42", "bob"),
        ("=1+1", "ada"),
        ("-", "-"),
    }


def test_every_field_is_in_the_reference_and_hours_of_each_card_sum_to_the_time_observed(recorded: Fallow) -> None:

    text = (REPOSITORY / "docs" / "reference" / "json.md").read_text()
    for by in ("gpu", "user", "job", "day", "week"):
        told = json.loads(recorded("report", "--by", by, "--format", "json").stdout)
        names = [*told, *told["gpus"][0], *told["lines"][0], *told["made"], *told["hours"][0], *told["gaps"][0]]
        assert [name for name in names if f"`{name}`" not in text] == []
        for line in told["lines"]:
            parts = [line[f"{activity.value}_s"] for activity in Activity]
            assert round(sum(parts) * 1000) == round(line["observed_s"] * 1000)


def test_csv_has_the_fields_of_the_json_and_no_formula(recorded: Fallow) -> None:
    for by in ("gpu", "user", "job", "day", "week"):
        rows = list(csv.DictReader(io.StringIO(recorded("report", "--by", by, "--format", "csv").stdout)))
        lines = json.loads(recorded("report", "--by", by, "--format", "json").stdout)["lines"]
        about = {"currency", "since", "until", "host"}
        assert [set(row) - about | {"unknown"} for row in rows] == [set(line) for line in lines]
        assert sum(float(row["observed_s"]) for row in rows) == pytest.approx(4 * HOUR_S)
        assert not [cell for row in rows for cell in row.values() if cell.startswith("=")]


def test_days_are_local_days(fallow: Fallow) -> None:
    now_s = time.time()
    midnight_s = now_s // 86400 * 86400
    record(fallow, two_cards(midnight_s - 2 * HOUR_S, 2 * HOUR_S))
    since = f"{int(now_s - midnight_s) + 3 * HOUR_S}s"
    for zone, days in (("UTC", 1), ("UTC-1", 2), ("Asia/Kolkata", 1)):
        told = json.loads(fallow("report", "--since", since, "--by", "day", "--format", "json", TZ=zone).stdout)
        assert len(told["lines"]) == days, zone
        assert told["total"]["observed_s"] == 4 * HOUR_S


def test_it_says_what_made_it_how_much_was_watched_and_what_was_drawn(recorded: Fallow) -> None:
    told = json.loads(recorded("report", "--since", "8h", "--format", "json").stdout)
    assert told["made"]["source"] == f"the history in {recorded.state}"
    assert told["observed_share"] == pytest.approx(0.25, abs=0.01)
    (gap,) = told["gaps"]
    begins, since = (datetime.datetime.fromisoformat(each["since"]).timestamp() for each in (gap, told))
    assert begins == pytest.approx(since, abs=0.01)
    assert told["total"]["energy_j"] == pytest.approx(4 * HOUR_S * 120.0)
    text = recorded("report", "--since", "3d").stdout
    assert "Energy: by the power, for " in text
    assert "; nobody watched from " in text
    assert f"from the history in {recorded.state}" in " ".join(text.split())
    assert [line[:3] for line in text.splitlines() if line.startswith(("Mon ", "Sun "))] == ["Mon", "Sun"]


def test_simulated_gpus_are_said_to_be(fallow: Fallow) -> None:
    record(fallow, two_cards(time.time() - 60, 60, simulated=True))
    assert fallow("report").stdout.startswith("box: 2 simulated GPUs")
    assert json.loads(fallow("report", "--format", "json").stdout)["gpus"][0]["simulated"] is True
    assert "2 simulated GPUs" in fallow("report", "--format", "html").stdout


def test_without_history_a_sentence_says_who_records_it(fallow: Fallow) -> None:
    done = fallow("report")
    assert (done.returncode, done.stdout) == (0, "")
    assert "there is no history in" in done.stderr
    assert "`fallow up` records it" in done.stderr
    empty = fallow("report", "--format", "json")
    assert json.loads(empty.stdout)["lines"] == []
    assert "No GPU was watched" in fallow("report", "--format", "html").stdout
    assert fallow("report", "--format", "csv").stdout.count("\n") == 1


@pytest.mark.more
def test_the_price_is_that_of_the_config_which_the_daemon_runs_with(
    simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    simulated.environ["TZ"] = "UTC"
    record(simulated, two_cards(time.time() - 2 * HOUR_S, 2 * HOUR_S, simulated=True))
    config = tmp_path / "elsewhere.toml"
    config.write_text('[machine]\nprice = 3.0\ncurrency = "EUR"\n')
    config.chmod(0o600)
    ours = tmp_path / "ours.toml"
    simulated.environ["FALLOW_CONFIG"] = str(ours)
    ours.write_text("[machine]\nprice = 5.0\n")
    ours.chmod(0o600)
    Fill(simulated.start("up", "--config", str(config), "--listen", "127.0.0.1:0")).until("up, ")
    assert "6.00 EUR" in simulated("report").stdout
    simulated.environ["FALLOW_DAEMON_TIMEOUT"] = "0.000001"
    assert "6.00 EUR" in simulated("report").stdout, "the prices of who told the hours, however long that takes"
    del simulated.environ["FALLOW_DAEMON_TIMEOUT"]
    assert "2.00 EUR" in simulated("report", "--price", "1/h").stdout
    assert "10.00 USD" in simulated("report", **NO_DAEMON).stdout
    ours.write_text("[machine]\nprice = -5.0\n")
    without = simulated("report", **NO_DAEMON)
    assert "cost" not in without.stdout
    assert f"without the prices of a config: {ours} has a mistake" in without.stderr
