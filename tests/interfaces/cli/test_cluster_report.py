"""`fallow report --cluster`: hours by node, partition, account and user, in all formats, with a price."""

import csv
import io
import json
import pathlib
import sqlite3
from contextlib import closing

import pytest

from fallow.core.cluster_usage import UsageRow, usage_report
from fallow.core.money import Prices
from fallow.engine.cluster.usage import FILE_NAME
from fallow.engine.machine.clock import SystemClock
from fallow.engine.machine.cluster_from_json import usage
from fallow.engine.machine.world import World
from fallow.interfaces.render.cluster_report import as_csv, as_json, show_table
from tests.conftest import Fallow
from tests.engine.cluster.planned import PlannedCluster, job, reading
from tests.interfaces.cli.clustered import watching

ALL = ("report", "--cluster", "--since", "3650d")


@pytest.fixture
def kept(simulated: Fallow) -> Fallow:
    """A cluster was watched for an hour: ada's two GPUs idle, bob's busy, one GPU of each node free."""
    cluster = PlannedCluster(simulated.home, keep_usage=World(simulated.environ).state_folder)
    cluster.engine.jobs = [job(1), job(2, 3, "n2", user="bob", labels={"partition": "gpu", "account": "=bio"})]
    cluster.eyes.gpus = [
        *(reading(index, 0.0) for index in range(4)),
        *(reading(index, 0.9, "n2") for index in range(4)),
    ]
    cluster.engine.ends = False
    cluster.minutes(61)
    assert cluster.loop.usage is not None
    cluster.loop.usage.close()
    cluster.journal.close()
    return simulated


def facts(fallow: Fallow, *words: str) -> dict[str, dict[str, float]]:
    told = json.loads(fallow(*ALL, "--format", "json", *words).stdout)
    assert told["version"] == 1
    return {line["name"]: line for line in [*told["lines"], told["total"]]}


def test_hours_are_added_up_by_user_and_the_most_wasteful_comes_first(kept: Fallow) -> None:
    told = facts(kept, "--price", "2/h")
    assert list(told) == ["ada", "bob", "all"]
    assert told["ada"]["idle_s"] == told["ada"]["held_s"] > 7000
    assert told["bob"]["idle_s"] == 0
    assert told["ada"]["cost"] == pytest.approx(told["ada"]["idle_s"] / 3600 * 2, abs=1e-5)
    assert told["all"]["free_s"] > 0


@pytest.mark.parametrize(
    ("by", "names"),
    [("node", {"n1", "n2"}), ("partition", {"gpu"}), ("account", {"lab", "=bio"}), ("namespace", set())],
)
def test_they_are_added_up_by_every_kind(kept: Fallow, by: str, names: set[str]) -> None:
    assert set(facts(kept, "--by", by)) - {"all"} == names


def test_the_daemon_tells_the_same_as_the_file(kept: Fallow) -> None:
    alone = facts(kept, "--by", "account")
    with watching(kept, "small"):
        assert facts(kept, "--by", "account") == alone


def test_a_report_can_end_before_now_by_the_file_and_by_the_daemon_alike(kept: Fallow) -> None:
    whole = facts(kept)["all"]
    watched = sqlite3.connect(pathlib.Path(World(kept.environ).state_folder) / FILE_NAME)
    with closing(watched):
        ((second,),) = watched.execute("SELECT max(begin) FROM usage").fetchall()
    end = f"{int(SystemClock().wall_s() - second) + 60}s"
    early = facts(kept, "--until", end)["all"]
    assert 0 < early["idle_s"] < whole["idle_s"], "the last hour is not in it"
    with watching(kept, "small"):
        assert facts(kept, "--until", end)["all"] == early


def test_a_table_csv_and_a_page_have_the_same_numbers(kept: Fallow, tmp_path: pathlib.Path) -> None:
    table = kept(*ALL, "--price", "$2/h", COLUMNS="80").stdout
    title, head, first, *_, last = table.splitlines()
    assert title.startswith("GPU hours of the cluster by user, ")
    assert head.split() == ["user", "held", "busy", "idle", "empty", "unknown", "idle", "%", "cost"]
    assert first.split()[:4] == ["ada", "2.0", "0.0", "2.0"]
    assert last.split()[0] == "all"
    assert max(map(len, table.splitlines())) <= 80
    rows = list(csv.DictReader(io.StringIO(kept(*ALL, "--by", "account", "--format", "csv").stdout)))
    assert {row["account"] for row in rows} == {"lab", "'=bio"}, "no spreadsheet takes it for a formula"
    page = kept(*ALL, "--format", "html").stdout
    assert "<td>ada</td>" in page
    assert "http" not in page


def test_filled_hours_have_a_column_of_their_own_and_no_cost(capsys: pytest.CaptureFixture[str]) -> None:
    games = UsageRow("games", 0.0, 0.0, 0.0, 0.0, 0.0, filled_s=7200.0)
    whole = UsageRow("all", 3600.0, 0.0, 0.0, 0.0, 0.0, filled_s=7200.0)
    report = usage_report("user", 0.0, 7200.0, [games], [whole], Prices(default=2.0, currency="$"))
    show_table(report)
    _, head, first, *_ = capsys.readouterr().out.splitlines()
    assert head.split() == ["user", "held", "busy", "idle", "empty", "unknown", "filled", "idle", "%", "cost"]
    assert first.split() == ["games", "0.0", "0.0", "0.0", "0.0", "0.0", "2.0", "$0.00"]
    (row,) = csv.DictReader(io.StringIO(as_csv(report)))
    assert (row["filled_s"], row["held_s"], row["free_s"], row["cost"]) == ("7200.0", "0.0", "", "0.0")
    line = usage(json.loads(as_json(report)))[0][0]
    assert line == games, "the daemon's answer is read back"


def test_jobs_without_a_namespace_are_not_said_to_be_nothing(kept: Fallow) -> None:
    done = kept(*ALL, "--by", "namespace")
    assert (done.returncode, done.stdout) == (0, "")
    assert (
        "no job of that time is known by its namespace; write --by with another one: node, partition" in done.stderr
    )


def test_a_kind_of_the_other_report_is_refused_with_a_way(simulated: Fallow) -> None:
    assert "add --cluster" in simulated("report", "--by", "node").stderr
    assert "write node, partition" in simulated("report", "--cluster", "--by", "gpu").stderr


def test_without_anything_kept_it_says_so(simulated: Fallow) -> None:
    done = simulated("report", "--cluster")
    assert done.returncode == 0
    assert "nothing of that time is kept of a cluster" in done.stderr
    with watching(simulated, "small"):
        assert "nothing of that time is kept" in simulated("report", "--cluster").stderr
