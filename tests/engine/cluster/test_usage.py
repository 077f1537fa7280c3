"""What a cluster did is kept by node, partition, account and user, as long as it should be."""

import pathlib
import sqlite3
import threading
from contextlib import closing

import pytest

from fallow.core.cluster import ClusterNode, Engine, PodGpus
from fallow.core.cluster_usage import KINDS, UsageRow, usage_report
from fallow.core.errors import FallowError
from fallow.core.money import Prices
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.cluster.usage import FILE_NAME, UsageFile, read_usage
from tests.engine.cluster.planned import PlannedCluster, job, reading, rule
from tests.places import LIMIT_S

HOUR_S, DAY_S = 3600.0, 86_400.0


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> PlannedCluster:
    made = PlannedCluster(tmp_path, rule(acts=False), keep_usage=str(tmp_path / "state"))
    made.engine.jobs = [job(7), job(8, gpus=1, first=2, user="bob"), job(9, gpus=1, node="n2", user="\x1b[31mred")]
    made.engine.nodes = (ClusterNode("n1", 4), ClusterNode("n2", 4))
    made.eyes.gpus = [
        *(reading(0, 0.5), reading(1, 0.0), reading(2, 0.0, processes=0), reading(3, 0.0)),
        *(reading(index, Unknown("no scrape"), node="n2") for index in range(4)),
    ]
    return made


def rows(cluster: PlannedCluster, kind: str) -> dict[str, UsageRow]:
    assert cluster.loop.usage is not None
    now_s = cluster.clock.wall_s()
    return {row.name: row for row in cluster.loop.usage.rows(kind, now_s - DAY_S, now_s + 1)}


def test_each_gpu_second_is_counted_once_in_each_kind(cluster: PlannedCluster) -> None:
    cluster.look(11)  # ten stretches of 30 seconds
    users = rows(cluster, "user")
    assert users["ada"] == UsageRow("ada", 300, 300, 0, 0, 0)
    assert users["bob"] == UsageRow("bob", 0, 300, 300, 0, 0)
    assert sorted(users) == ["?[31mred", "ada", "bob"]
    assert all(name.isprintable() for name in users)
    nodes = rows(cluster, "node")
    assert nodes["n1"] == UsageRow("n1", 300, 600, 300, 0, 300)
    assert nodes["n2"] == UsageRow("n2", 0, 0, 0, 300, 900)
    assert rows(cluster, "cluster")["all"] == UsageRow("all", 300, 600, 300, 300, 1200)
    assert rows(cluster, "partition")["gpu"].held_s == rows(cluster, "account")["lab"].held_s == 1200


def test_the_gpus_of_a_pod_count_for_its_node_whatever_the_metrics_call_their_host(cluster: PlannedCluster) -> None:
    pod = ("ml", "web-1")
    held = replace(job(7), engine=Engine.KUBERNETES, id="Pod/ml/web-1", places=(PodGpus(*pod, 4, node="n1"),))
    cluster.engine.jobs, cluster.engine.nodes = [held], (ClusterNode("n1", 4),)
    cluster.eyes.gpus = [reading(index, 0.5, node="fallow-node-7xk2p", pod=pod) for index in range(4)]
    cluster.look(6)
    assert rows(cluster, "node") == {"n1": UsageRow("n1", 600, 0, 0, 0, 0)}
    cluster.eyes.trouble = Unknown("silent")
    cluster.look(5)
    assert rows(cluster, "node") == {"n1": UsageRow("n1", 600, 0, 0, 600, 0)}
    assert rows(cluster, "cluster")["all"] == UsageRow("all", 600, 0, 0, 600, 0)


def test_the_time_of_a_background_job_is_apart_and_nobody_wastes_it(
    cluster: PlannedCluster, tmp_path: pathlib.Path
) -> None:
    spare = job(8, gpus=1, first=2, user="games", labels={"partition": "scavenger"})
    kept = str(tmp_path / "filled" / "state")
    filled = PlannedCluster(
        tmp_path / "filled", rule(acts=False), keep_usage=kept, background=frozenset({"scavenger"})
    )
    suspended = replace(spare, id="9", places=job(9, 1, first=3).places, no_way="it is suspended")
    filled.engine.jobs = [job(7), spare, suspended]
    filled.engine.nodes, filled.eyes.gpus = (ClusterNode("n1", 4),), cluster.eyes.gpus[:4]
    filled.look(6)
    filled.eyes.trouble = Unknown("silent")  # the engine says who holds the GPU, so it stays known
    filled.look(5)
    users = rows(filled, "user")
    assert users["games"] == UsageRow("games", 0, 150, 0, 150, 0, filled_s=300), "a suspended one does not give way"
    assert rows(filled, "partition")["scavenger"].filled_s == rows(filled, "cluster")["all"].filled_s == 300
    assert rows(filled, "node")["n1"] == UsageRow("n1", 150, 300, 0, 450, 0, filled_s=300)
    report = usage_report("user", 0, 1, list(users.values()), [], Prices(default=3600.0))
    assert report.cost(users["games"]) == 150


def test_a_file_of_an_older_fallow_is_read_and_written_on(cluster: PlannedCluster, tmp_path: pathlib.Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    file = tmp_path / "state" / FILE_NAME
    now_s = cluster.clock.wall_s()
    with closing(sqlite3.connect(file)) as database, database:
        columns = ", ".join(f"{name} REAL NOT NULL" for name in ("busy", "idle", "empty", "unknown", "free"))
        key = "begin INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL"
        database.execute(f"CREATE TABLE usage ({key}, {columns}, PRIMARY KEY (begin, kind, name)) WITHOUT ROWID")
        database.execute("INSERT INTO usage VALUES (?, 'user', 'eve', 1, 2, 3, 4, 5)", (int(now_s),))
    file.chmod(0o600)
    eve = UsageRow("eve", 1, 2, 3, 4, 5)
    assert read_usage(str(tmp_path / "state"), "user", now_s - DAY_S, now_s + 1) == [eve]
    cluster.look(11)
    assert rows(cluster, "user")["eve"] == eve
    assert rows(cluster, "user")["bob"].idle_s == 300


def test_a_silent_cluster_is_unknown_and_a_gap_is_nothing(cluster: PlannedCluster) -> None:
    cluster.look()
    cluster.eyes.trouble = Unknown("silent")
    cluster.look(2)
    cluster.clock.now_s += 5000
    cluster.eyes.trouble = None
    cluster.look()
    assert rows(cluster, "user")["ada"] == UsageRow("ada", 0, 0, 0, 120, 0)


def test_another_process_reads_what_was_written(cluster: PlannedCluster, tmp_path: pathlib.Path) -> None:
    cluster.look(11)
    assert cluster.loop.usage is not None
    cluster.loop.usage.close()
    now_s = cluster.clock.wall_s()
    found = {kind: read_usage(str(tmp_path / "state"), kind, now_s - DAY_S, now_s + 1) for kind in KINDS}
    assert {row.name for row in found["node"]} == {"n1", "n2"}
    assert found["namespace"] == []
    assert read_usage(str(tmp_path / "nowhere"), "node", 0, now_s) == []
    (tmp_path / "state" / FILE_NAME).write_bytes(b"not a database at all" * 100)
    with pytest.raises(FallowError, match="cannot be read"):
        read_usage(str(tmp_path / "state"), "node", 0, now_s)


def test_hours_become_days_after_a_week_and_old_days_are_deleted(
    cluster: PlannedCluster, tmp_path: pathlib.Path
) -> None:
    cluster.look(400)
    first_s = cluster.clock.wall_s()
    before = rows(cluster, "user")["ada"]
    cluster.clock.now_s += 10 * DAY_S
    cluster.look(3)
    now_s = cluster.clock.wall_s()
    assert cluster.loop.usage is not None
    later = {row.name: row for row in cluster.loop.usage.rows("user", first_s - DAY_S - HOUR_S, first_s + DAY_S)}
    assert later["ada"] == before, "all of it is there, in days"
    cluster.clock.now_s += 100 * DAY_S
    cluster.look(3)
    kept = read_usage(str(tmp_path / "state"), "user", 0, now_s)
    assert {row.name for row in kept} >= {"ada", "bob"}, "a clock that has just jumped ahead deletes nothing"
    cluster.clock.now_s += 1.1 * DAY_S
    cluster.look(3)
    assert read_usage(str(tmp_path / "state"), "user", 0, now_s) == []


def test_a_damaged_file_is_set_aside_and_threads_read_while_another_writes(
    cluster: PlannedCluster, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    file = tmp_path / "state" / FILE_NAME
    file.write_bytes(b"not a database at all" * 100)
    file.chmod(0o600)
    cluster.look(12)
    assert any("damaged" in sentence for sentence in cluster.said)
    usage, seen = cluster.loop.usage, []
    assert isinstance(usage, UsageFile)
    now_s = cluster.clock.wall_s()
    readers = [
        threading.Thread(target=lambda: seen.extend(usage.rows("user", now_s - DAY_S, now_s + 60))) for _ in range(4)
    ]
    for reader in readers:
        reader.start()
    cluster.look(5)
    for reader in readers:
        reader.join(LIMIT_S)
    assert len(seen) == 12
