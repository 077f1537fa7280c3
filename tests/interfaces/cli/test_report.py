"""`fallow report`: the hours of history, for people, programs and spreadsheets; sentences where there are none."""

import csv
import io
import json
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any
from xml.etree import ElementTree

import pytest

from fallow.core.activity import Activity
from fallow.core.gpu_status import Status
from fallow.core.owner import Owner, OwnerKind
from fallow.engine.history.writer import HistoryWriter
from tests.conftest import Fallow
from tests.engine.history.life import gpu_status, holder
from tests.places import REPOSITORY

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
    busy, free = gpu_status(1, Activity.BUSY, holder(3, "ada", "=<b>1")), gpu_status(1, Activity.FREE)
    for second in range(seconds + 1):
        yield Status("box", simulated, begin_s + second, (shared, busy if second <= seconds / 2 else free))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fallow]:
    """Two hours of two cards, the last of them now."""
    fallow = Fallow(tmp_path_factory.mktemp("recorded"))
    fallow.environ["TZ"] = "UTC"
    record(fallow, two_cards(time.time() - 2 * HOUR_S, 2 * HOUR_S))
    yield fallow
    fallow.end_all()


def told(fallow: Fallow, *words: str, **variables: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(fallow("report", *words, "--format", "json", **variables).stdout)
    return facts


def rows(fallow: Fallow, *words: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(fallow("report", *words, "--format", "csv").stdout)))


def test_a_table_by_gpu_adds_up_and_says_how_much_was_watched(recorded: Fallow) -> None:
    done = recorded("report", "--price", "$2/h", "--since", "3d")
    assert done.returncode == 0, done.stderr
    head, *lines = [line.split() for line in done.stdout.splitlines()[1:]]
    assert done.stdout.startswith("box: 2 GPUs (NVIDIA H100 80GB HBM3), ")
    assert head == ["GPU", "free", "busy", "idle", "observed", "kWh", "cost"], "what was never seen has no column"
    assert lines[0] == ["0", "0", "0", "2.0h", "2.0h", "0.24", "$4.00"]
    assert lines[1] == ["1", "1.0h", "1.0h", "0", "2.0h", "0.24", "$0.00"]
    assert lines[2] == ["all", "1.0h", "1.0h", "2.0h", "4.0h", "0.48", "$4.00"]
    assert "; nobody watched from " in done.stdout
    assert f"from the history in {recorded.state}" in " ".join(done.stdout.split())


def test_time_on_a_shared_card_is_shared_out_and_free_time_is_nobodys(recorded: Fallow) -> None:
    found = told(recorded, "--by", "user", "--price", "1")
    users = {line["user"]: line for line in found["lines"]}
    for name in ("ada", "bob"):
        assert users[name]["idle_s"] == pytest.approx(HOUR_S, abs=0.01)
    assert users["ada"]["busy_s"] == pytest.approx(HOUR_S, abs=1)
    assert users["-"]["free_s"] == pytest.approx(HOUR_S, abs=1)
    assert users["bob"]["cost"] == 1.0
    assert sum(line["observed_s"] for line in found["lines"]) == found["total"]["observed_s"] == 4 * HOUR_S
    sentence = "-: hours that belong to nobody, because the GPU was free or filled"
    assert sentence in " ".join(recorded("report", "--by", "user").stdout.split())


def test_the_json_has_what_the_reference_says_and_no_cost_without_a_price(recorded: Fallow) -> None:
    text = (REPOSITORY / "docs" / "reference" / "json.md").read_text()
    found = told(recorded, "--since", "8h", "--by", "job")
    names = [*found, *found["gpus"][0], *found["lines"][0], *found["made"], *found["hours"][0], *found["gaps"][0]]
    assert [name for name in names if f"`{name}`" not in text] == []
    for line in found["lines"]:
        parts = [line[f"{activity.value}_s"] for activity in Activity]
        assert round(sum(parts) * 1000) == round(line["observed_s"] * 1000)
    assert found["made"]["source"] == f"the history in {recorded.state}"
    assert found["observed_share"] == pytest.approx(0.25, abs=0.01)
    total = found["total"]
    assert (total["cost"], total["energy_j"]) == (None, pytest.approx(4 * HOUR_S * 120.0))
    assert "no price" in total["unknown"]["cost"]
    assert told(recorded, "--since", "30m")["total"]["observed_s"] == pytest.approx(2 * 1800, abs=120)


@pytest.mark.as_root
def test_jobs_are_told_with_their_user_and_as_csv_without_a_formula(recorded: Fallow) -> None:
    found = rows(recorded, "--by", "job", "--price", "2.50 EUR/h")
    assert {(row["job"], row["user"]) for row in found} == {
        ("jupyter-lab", "ada"),
        ("slurm:42", "bob"),
        ("'=<b>1", "ada"),
        ("-", "-"),
    }
    assert {(row["currency"], row["host"]) for row in found} == {("EUR", "box")}
    about = {"currency", "since", "until", "host", "unknown"}
    assert set(found[0]) - about == set(told(recorded, "--by", "job")["lines"][0]) - {"unknown"}
    assert sum(float(row["observed_s"]) for row in found) == pytest.approx(4 * HOUR_S)


def test_the_hours_of_the_week_are_a_csv_with_the_numbers_of_the_json(recorded: Fallow) -> None:
    found, hours = rows(recorded, "--by", "hour"), told(recorded)["hours"]
    assert len(found) == len(hours) >= 2
    for row, hour in zip(found, hours, strict=True):
        assert {name: float(row[name]) for name in hour} == pytest.approx(hour, abs=60)
    assert sum(float(row["observed_s"]) for row in found) == pytest.approx(4 * HOUR_S)


def test_days_and_times_are_local(fallow: Fallow) -> None:
    noon_s = time.time() // 86400 * 86400 - 2.5 * 86400
    record(fallow, two_cards(noon_s - HOUR_S, 2 * HOUR_S))
    day, following = (time.strftime("%Y-%m-%d", time.gmtime(noon_s + shift * 86400)) for shift in (0, 1))
    for zone, days, span, seconds in (
        ("UTC", 1, ("--since", day, "--until", following), 4 * HOUR_S),
        ("UTC", 1, ("--until", f"{day} 12:00"), 2 * HOUR_S),
        ("UTC-1", 1, ("--since", f"{day}T12:00", "--until", "1m"), 4 * HOUR_S),
        ("UTC-12", 2, ("--since", "9d"), 4 * HOUR_S),
    ):
        found = told(fallow, *span, "--by", "day", TZ=zone)
        assert (len(found["lines"]), found["total"]["observed_s"]) == (days, seconds), (zone, span)


def test_simulated_gpus_are_said_to_be_and_are_in_no_report_of_real_ones(fallow: Fallow) -> None:
    record(fallow, two_cards(time.time() - 60, 60, simulated=True))
    assert fallow("report").stdout.startswith("box: 2 simulated GPUs")
    assert "there is no history in" in fallow("report", "--simulate=2xH100").stderr


def test_without_history_a_sentence_says_who_records_it_and_another_time_is_told_apart(fallow: Fallow) -> None:
    done = fallow("report")
    assert (done.returncode, done.stdout) == (0, "")
    assert "there is no history in" in done.stderr
    assert "`fallow up` records it" in done.stderr
    assert told(fallow)["lines"] == []
    assert "No GPU was watched" in fallow("report", "--format", "html").stdout
    assert fallow("report", "--format", "csv").stdout.count("\n") == 1
    record(fallow, two_cards(time.time() - 9 * 86400, 60))
    assert "there is nothing of that time" in fallow("report").stderr
    assert fallow("report", "--since", "2w").stdout


def test_history_that_is_rubbish_is_told(fallow: Fallow) -> None:
    fallow.state.mkdir()
    (fallow.state / "history.db").write_bytes(b"not a database" * 1000)
    done = fallow("report")
    assert (done.returncode, "cannot be read" in done.stderr) == (125, True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--since", "2026-02-30"), "'2026-02-30' is not in the calendar"),
        (("--since", "1d", "--until", "2d"), "the report would end (2d) before it begins (1d)"),
        (("--since", "999w9d"), "ten years"),
        (("--by", "host"), "--by host needs --on"),
        (("--by", "node"), "--by node needs --cluster"),
        (("--by", "hour"), "--by hour is for --format csv; write --format csv, or leave it out"),
        (("--on", "x", "--by", "node"), "--by node does not go with --on; write host, gpu, user, job, day"),
        (("--on", "x", "--format", "html"), "--format html does not go with --on; write table, json or csv"),
        (("--price", "$1", "--price", "T4=1€"), "one currency"),
    ],
)
def test_wrong_words_are_answered_in_one_sentence(recorded: Fallow, words: tuple[str, ...], says: str) -> None:
    done = recorded("report", *words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert says in done.stderr


def test_the_price_is_that_of_the_config_unless_one_is_given(recorded: Fallow) -> None:
    config = recorded.home / "prices.toml"
    config.write_text('[machine]\nprice = 5.0\ncurrency = "EUR"\n')
    config.chmod(0o600)
    places = {"FALLOW_CONFIG": str(config)}
    assert "10.00 EUR" in recorded("report", **places).stdout
    assert "2.00 EUR" in recorded("report", "--price", "1/h", **places).stdout
    config.write_text("[machine]\nprice = -5.0\n")
    without = recorded("report", **places)
    assert "cost" not in without.stdout
    assert f"without the prices of a config: {config} has a mistake" in without.stderr


@pytest.mark.as_root
def test_the_page_needs_nothing_from_elsewhere_and_its_pictures_say_what_they_show(recorded: Fallow) -> None:
    text = recorded("report", "--price", "€2.50/h", "--format", "html").stdout
    assert not re.search(r"<(script|link|img|iframe|object)|\bon\w+=|url\(|@import|https?:|style=\"", text)
    assert "=&lt;b&gt;1" in text
    assert re.search(r'<h2 id="strips">The last day, up to \d{4}-\d\d-\d\d \d\d:\d\d</h2>', text)
    body = text.split("<body>")[1].split("</body>")[0]
    root = ElementTree.fromstring(f"<body>{body}</body>")  # it is well formed as XML, too
    ids = [one.get("id") for one in root.iter() if one.get("id")]
    assert len(ids) == len(set(ids))
    pictures = [svg for svg in root.iter("svg") if svg.get("role") == "img"]
    assert len(pictures) > 2
    for svg in pictures:
        named = (svg.get("aria-labelledby") or "").split()
        parts = [part for part in (svg.find("title"), svg.find("desc")) if part is not None and part.text]
        assert [part.get("id") for part in parts] == named
    assert len(list(root.iter("table"))) == 6, "one by hour of the week, and one for each kind"
    assert all(cell.get("scope") for cell in root.iter("th"))
