"""`fallow report`: the hours of history, for people, programs and spreadsheets; sentences where there are none."""

import csv
import datetime
import io
import json
import pathlib
import re
import time
from collections.abc import Iterable

import pytest

from fallow.core.activity import Activity
from fallow.core.gpu_status import Status
from fallow.core.owner import Owner, OwnerKind
from fallow.engine.history.writer import HistoryWriter
from tests.conftest import Fallow
from tests.engine.history.life import gpu_status, holder
from tests.interfaces.cli.filled import Fill, up_for
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


def test_the_strips_of_the_page_are_headed_by_how_much_time_they_show(recorded: Fallow) -> None:
    for since, length in (("1h", "1h"), ("30d", "day")):
        text = recorded("report", "--since", since, "--format", "html").stdout
        assert re.search(rf'<h2 id="strips">The last {length}, up to \d{{4}}-\d\d-\d\d \d\d:\d\d</h2>', text)


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


def test_each_row_of_the_csv_tells_the_currency_the_span_and_the_host(recorded: Fallow) -> None:
    for by in ("gpu", "user", "week"):
        words = ("report", "--by", by, "--since", "2026-01-01", "--price", "2.50 EUR/h", "--format")
        rows = list(csv.DictReader(io.StringIO(recorded(*words, "csv").stdout)))
        told = json.loads(recorded(*words, "json").stdout)
        assert rows
        for row in rows:
            assert (row["currency"], row["since"], row["host"]) == ("EUR", told["since"], "box")
            assert datetime.datetime.fromisoformat(row["until"]) <= datetime.datetime.fromisoformat(told["until"])


def test_the_hours_of_the_week_are_a_csv_with_the_numbers_of_the_json(recorded: Fallow) -> None:
    rows = list(csv.DictReader(io.StringIO(recorded("report", "--by", "hour", "--format", "csv").stdout)))
    hours = json.loads(recorded("report", "--format", "json").stdout)["hours"]
    assert len(rows) == len(hours) >= 2
    for row, hour in zip(rows, hours, strict=True):
        assert {name: float(row[name]) for name in hour} == pytest.approx(hour, abs=60)
        assert row["host"] == "box"
    assert sum(float(row["observed_s"]) for row in rows) == pytest.approx(4 * HOUR_S)
    refused = recorded("report", "--by", "hour")
    assert refused.returncode == 2
    assert "--by hour is for --format csv; write --format csv, or leave it out" in refused.stderr


def test_the_table_says_what_the_hours_of_nobody_are(recorded: Fallow) -> None:
    sentence = "-: hours that belong to nobody, because the GPU was free or filled"
    for by in ("user", "job"):
        assert sentence in " ".join(recorded("report", "--by", by).stdout.split())
    assert sentence not in recorded("report").stdout
    assert sentence in recorded("report", "--format", "html").stdout


def test_days_are_local_days(fallow: Fallow) -> None:
    now_s = time.time()
    midnight_s = now_s // 86400 * 86400
    record(fallow, two_cards(midnight_s - 2 * HOUR_S, 2 * HOUR_S))
    since = f"{int(now_s - midnight_s) + 3 * HOUR_S}s"
    for zone, days in (("UTC", 1), ("UTC-1", 2), ("Asia/Kolkata", 1)):
        told = json.loads(fallow("report", "--since", since, "--by", "day", "--format", "json", TZ=zone).stdout)
        assert len(told["lines"]) == days, zone
        assert told["total"]["observed_s"] == 4 * HOUR_S


def test_only_what_is_asked_for_is_counted(recorded: Fallow) -> None:
    told = json.loads(recorded("report", "--since", "30m", "--format", "json").stdout)
    assert told["total"]["observed_s"] == pytest.approx(2 * 1800, abs=120)


def test_a_report_of_days_ends_where_the_second_one_begins_in_local_time(fallow: Fallow) -> None:
    noon_s = time.time() // 86400 * 86400 - 2.5 * 86400
    record(fallow, two_cards(noon_s - HOUR_S, 2 * HOUR_S))
    day, following, earlier = (time.strftime("%Y-%m-%d", time.gmtime(noon_s + shift * 86400)) for shift in (0, 1, -1))
    spans = {
        ("--since", day, "--until", following): 4 * HOUR_S,
        ("--since", earlier, "--until", day): 0,
        ("--since", f"{day}T12:00", "--until", following): 2 * HOUR_S,
        ("--until", f"{day} 12:00"): 2 * HOUR_S,
    }
    for span, seconds in spans.items():
        told = json.loads(fallow("report", *span, "--format", "json", TZ="UTC").stdout)
        assert told["total"]["observed_s"] == seconds, span
    shifted = json.loads(
        fallow("report", "--since", f"{day}T12:00", "--until", "1m", "--format", "json", TZ="UTC-1").stdout
    )
    assert shifted["total"]["observed_s"] == 4 * HOUR_S, "noon of a zone that is an hour ahead is an hour earlier"


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


def rows_of(told: str) -> list[str]:
    """The table of a report, without its title and what follows."""
    return told.split("\n\n", maxsplit=1)[0].splitlines()[1:]


@pytest.mark.more
def test_what_simulated_gpus_did_is_in_no_report_of_the_real_ones_and_the_other_way_round(recorded: Fallow) -> None:
    before = recorded("report", "--by", "user").stdout
    up_for(3.0, recorded, "--simulate=3xH100")
    assert recorded("report").stdout.startswith("box: 2 GPUs (")
    assert rows_of(recorded("report", "--by", "user").stdout) == rows_of(before)
    simulated = recorded("report", "--simulate=3xH100").stdout
    assert ": 3 simulated GPUs (" in simulated
    assert "ada" not in recorded("report", "--by", "user", "--simulate=3xH100").stdout


def test_without_history_a_sentence_says_who_records_it(fallow: Fallow) -> None:
    done = fallow("report")
    assert (done.returncode, done.stdout) == (0, "")
    assert "there is no history in" in done.stderr
    assert "`fallow up` records it" in done.stderr
    empty = fallow("report", "--format", "json")
    assert json.loads(empty.stdout)["lines"] == []
    assert "No GPU was watched" in fallow("report", "--format", "html").stdout
    assert fallow("report", "--format", "csv").stdout.count("\n") == 1


def test_history_of_another_time_is_told_apart_from_none(fallow: Fallow) -> None:
    record(fallow, two_cards(time.time() - 9 * 86400, 60))
    assert "there is nothing of that time" in fallow("report").stderr
    assert fallow("report", "--since", "2w").stdout


@pytest.mark.more
@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--since", "soon"), 2, "'soon' is not a duration or a date"),
        (("--since", "2026-02-30"), 2, "'2026-02-30' is not in the calendar"),
        (("--until", "1.11.2026"), 2, "'1.11.2026' is not a date; write 7d, 12h, 2026-11-01 or 2026-11-01T09:30"),
        (("--since", "1d", "--until", "2d"), 2, "the report would end (2d) before it begins (1d)"),
        (("--since", "0"), 2, "ten years"),
        (("--since", "999w9d"), 2, "ten years"),
        (("--by", "moon"), 2, "moon"),
        (("--by", "host"), 2, "--by host needs --on"),
        (("--on", "x", "--by", "node"), 2, "--by node does not go with --on; write host, gpu, user, job, day"),
        (("--on", "x", "--format", "html"), 2, "--format html does not go with --on; write table, json or csv"),
        (("--on", "x", "--cluster"), 2, "--cluster does not go with --on"),
        (("--price", "cheap"), 2, "is not a price"),
        (("--price", "$1", "--price", "T4=1€"), 2, "one currency"),
        (("--format", "pdf"), 2, "pdf"),
        (("extra",), 2, "extra"),
    ],
)
def test_wrong_words_are_answered_in_one_sentence(
    recorded: Fallow, words: tuple[str, ...], code: int, says: str
) -> None:
    done = recorded("report", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def test_history_that_is_rubbish_is_told(fallow: Fallow, tmp_path: pathlib.Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "history.db").write_bytes(b"not a database" * 1000)
    done = fallow("report")
    assert done.returncode == 125
    assert "cannot be read" in done.stderr


def test_a_report_needs_no_driver_and_loads_no_more_than_it_prints(recorded: Fallow) -> None:
    from tests.house.test_startup import loaded_by

    loaded = loaded_by(
        recorded, "from fallow.interfaces.cli.main import main\nassert main(['report', '--format', 'csv']) == 0"
    )
    assert loaded.isdisjoint({"fallow.readers.nvml_library", "rich", "jinja2", "asyncio"})


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
