"""One daemon shows the others: three real `fallow up` on loopback, each with simulated GPUs of its own."""

import csv
import io
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from tests.conftest import Fallow
from tests.places import LIMIT_S, OFTEN
from tests.ports import free_ports
from tests.waiting import PROGRAM_S, until

pytestmark = pytest.mark.more

TOKEN = "a-token-of-the-tests-of-the-fleet"


class Machine:
    """One machine with a daemon, which can be ended and started again."""

    def __init__(self, home: pathlib.Path, machine: str, config: str = "", port: int = 0) -> None:
        home.mkdir()
        self.fallow = Fallow(home)
        self.fallow.environ["FALLOW_SIMULATE"] = machine
        self.port = port or free_ports(1)[0]
        self.token_file = home / "token"
        self.token_file.write_text(TOKEN)
        self.token_file.chmod(0o600)
        self._config = home / "fallow.toml"
        page = f"[page]\nlisten = '127.0.0.1:{self.port}'\ntoken_file = '{self.token_file}'\n"
        self._config.write_text(f"{page}[terminals]\nusers = 'ignore'\n{config}{OFTEN}")
        self._config.chmod(0o600)
        self.process: subprocess.Popen[str] | None = None

    def up(self) -> None:
        self.process = self.fallow.start("up", "--config", str(self._config))
        until(lambda: self.ask("/status") is not None, pause_s=0.1)

    def end(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(LIMIT_S)

    def ask(self, target: str, token: str = TOKEN) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/v1{target}", headers={"Authorization": f"Bearer {token}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
                return json.loads(answer.read())
        except (urllib.error.URLError, ConnectionError):
            return None

    def page(self, target: str) -> str:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{target}", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            return str(answer.read().decode())

    def hosts(self) -> dict[str, Any]:
        found = self.ask("/fleet")
        return {} if found is None else {host["name"]: host for host in found["hosts"]}


@pytest.fixture
def machines(tmp_path: pathlib.Path) -> Iterator[list[Machine]]:
    made: list[Machine] = []
    yield made
    for each in made:
        each.fallow.end_all()


def member(name: str, port: int, token_file: pathlib.Path) -> str:
    return f"[[fleet.hosts]]\nname = '{name}'\nurl = 'http://127.0.0.1:{port}'\ntoken_file = '{token_file}'\n"


def started(machines: list[Machine], home: pathlib.Path) -> Machine:
    """Start two machines, and one that shows them and a third that hangs; the notices go into a file."""
    for name, gpus in (("gpu1", "2xH100"), ("gpu2", "3xA100")):
        machines.append(Machine(home / name, gpus))
        machines[-1].up()
    wrong = home / "wrong-token"
    wrong.write_text("another-token-which-is-not-right")
    wrong.chmod(0o600)
    first, second = machines
    fleet = "[fleet]\nevery = '200ms'\nsilent_for = '5s'\n"
    fleet += member("gpu1", first.port, first.token_file) + member("gpu2", second.port, second.token_file)
    shows = Machine(home / "shows", "1xT4", fleet + member("locked", first.port, wrong))
    machines.append(shows)
    shows.up()
    until(lambda: [shows.hosts().get(name, {}).get("error", "?") for name in ("gpu1", "gpu2")] == [None, None])
    return shows


def test_who_listens_in_the_place_of_a_host_is_not_told_its_token(
    machines: list[Machine], tmp_path: pathlib.Path
) -> None:
    """While a daemon does not run, any user of its machine can have its port."""
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN)
    token_file.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as neighbour:
        port = neighbour.getsockname()[1]
        machines.append(Machine(tmp_path / "shows", "1xT4", f"[fleet]\n{member('gpu1', port, token_file)}"))
        machines[0].up()
        neighbour.settimeout(LIMIT_S)
        with neighbour.accept()[0] as asked:
            told = asked.recv(65536).decode()
    assert "authorization: fallow-signed " in told.lower()
    assert TOKEN not in told


@pytest.mark.more
def test_one_daemon_shows_all_hosts_and_since_when_one_is_silent(
    machines: list[Machine], tmp_path: pathlib.Path
) -> None:
    shows = started(machines, tmp_path)
    seen = shows.hosts()
    assert [len(seen[name]["status"]["gpus"]) for name in ("gpu1", "gpu2")] == [2, 3]
    here = next(host for host in seen.values() if host["here"])
    assert len(here["status"]["gpus"]) == 1
    assert seen["locked"]["reason"] == "host_answers"
    assert "token_file" in seen["locked"]["error"]
    table = shows.fallow("status", "--fleet").stdout
    assert [line.split()[:3] for line in table.splitlines() if line.startswith("gpu")] == [
        ["gpu1", "2", "2"],
        ["gpu2", "3", "3"],
    ]
    assert "silent for" in table
    metrics = shows.page("/metrics")
    assert 'fallow_fleet_host_up{host="gpu1"} 1.0' in metrics
    assert 'fallow_fleet_host_up{host="locked"} 0.0' in metrics
    assert 'fallow_fleet_gpus{activity="free",host="gpu2"} 3.0' in metrics
    page = shows.page("/")
    assert "2 of 3 other hosts answer" in page
    assert "3 available (3 free)" in page

    machines[0].end()
    silent = until(lambda: shows.hosts()["gpu1"], lambda host: host["error"] is not None, pause_s=0.1)
    assert silent["status"] is None
    assert silent["reason"] == "host_not_heard"
    until(
        lambda: [event["reason"] for event in shows.ask("/events?key=host:gpu1")["events"]],
        lambda found: found[:1] == ["host_fell_silent"],
        pause_s=0.1,
    )
    machines[0].up()
    until(lambda: shows.hosts()["gpu1"]["error"] is None, pause_s=0.1)
    until(
        lambda: [event["reason"] for event in shows.ask("/events?key=host:gpu1")["events"]],
        lambda found: found[:2] == ["host_is_back", "host_fell_silent"],
        pause_s=0.1,
    )


@pytest.mark.more
def test_the_hours_of_all_hosts_are_added_up(machines: list[Machine], tmp_path: pathlib.Path) -> None:
    shows = started(machines, tmp_path)

    def observed() -> dict[str, float]:
        found = shows.ask("/fleet/report?by=host")
        return {line["host"]: line["observed_s"] for line in found["lines"]}

    hours = until(observed, lambda found: {"gpu1", "gpu2"} <= found.keys() and len(found) == 3, pause_s=PROGRAM_S)
    assert min(hours.values()) > 0
    # A host that has much to do may answer too late: the report then says so, and another one is asked for.
    report = until(
        lambda: shows.ask("/fleet/report?by=user"),
        lambda found: [host["reason"] for host in found["hosts"]] == [None, None, None, "host_answers"],
        pause_s=PROGRAM_S,
    )
    assert sorted(report["lines"][0]["hosts"])[-2:] == ["gpu1", "gpu2"] or len(report["lines"][0]["hosts"]) == 3
    assert report["total"]["observed_s"] > sum(hours.values()) - 0.01  # each is rounded
    done = shows.fallow("report", "--fleet", "--by", "user")
    assert done.returncode == 0, done.stderr
    assert "without locked: it answers 401" in done.stderr
    assert "total" in done.stdout
    assert "hosts" in done.stdout.splitlines()[1]
    by_host = shows.fallow("report", "--fleet").stdout.splitlines()
    assert by_host[1].split()[:2] == ["host", "observed"]
    assert "hosts" not in by_host[1]
    assert re.fullmatch(r"hours from \d{4}-\d\d-\d\d \d\d:\d\d to \d{4}-\d\d-\d\d \d\d:\d\d UTC", by_host[0])
    assert all(row.split()[1] != "0.0" for row in by_host[2:]), "what was observed is never shown as zero"
    ended = ("--since", "2h", "--until", "1h", "--format", "json")
    before = json.loads(shows.fallow("report", "--fleet", *ended).stdout)
    assert before["total"]["observed_s"] == 0, "nobody watched before it ended"
    begin, end = (datetime.fromisoformat(before[name]) for name in ("since", "until"))
    assert abs((end - begin).total_seconds() - 3600) < 2
    by_gpu = json.loads(shows.fallow("report", "--fleet", "--by", "gpu", "--format", "json").stdout)
    assert [line["gpu"] for line in by_gpu["lines"] if line["host"] == "gpu2"] == ["0", "1", "2"]
    for by in ("gpu", "job", "day"):
        done = shows.fallow("report", "--fleet", "--by", by)
        assert (done.returncode, by in done.stdout.splitlines()[1]) == (0, True), done.stderr


def test_the_hours_of_a_fleet_are_a_csv_with_the_columns_of_one_host(
    machines: list[Machine], tmp_path: pathlib.Path
) -> None:
    (shut,) = free_ports(1)
    machines.append(Machine(tmp_path / "shows", "2xT4", "[fleet]\n" + member("shut", shut, tmp_path / "shows/token")))
    (shows,) = machines
    shows.up()
    until(lambda: shows.ask("/fleet/report?by=gpu")["lines"], lambda found: len(found) == 2, pause_s=PROGRAM_S)

    def rows(*words: str) -> list[dict[str, str]]:
        done = shows.fallow("report", *words, "--format", "csv")
        assert done.returncode == 0, done.stderr
        assert ("without shut: " in done.stderr) is ("--fleet" in words), done.stderr
        return list(csv.DictReader(io.StringIO(done.stdout)))

    for by in ("gpu", "user", "job", "day"):
        alone, together = rows("--by", by), rows("--fleet", "--by", by)
        assert list(together[0]) == list(alone[0]), "so that rows of both can be put together"
        assert together[0]["host"] == os.uname().nodename
    gpus = rows("--fleet", "--by", "gpu")
    assert [row["gpu"] for row in gpus] == ["0", "1"]
    assert all(float(row["observed_s"]) >= float(row["free_s"]) > 0 for row in gpus)
    (host,) = rows("--fleet")
    assert list(host)[:2] == ["host", "observed_s"]
    assert list(host)[-3:] == ["currency", "since", "until"]
    assert datetime.fromisoformat(host["since"]) < datetime.fromisoformat(host["until"])


def test_a_daemon_without_a_fleet_says_how_to_name_one(machines: list[Machine], tmp_path: pathlib.Path) -> None:
    machines.append(Machine(tmp_path / "gpu1", "1xT4"))
    machines[0].up()
    for words in (("status", "--fleet"), ("report", "--fleet")):
        done = machines[0].fallow(*words)
        assert done.returncode == 69
        assert "[fleet]" in done.stderr


def test_a_host_that_hangs_is_silent_and_the_daemon_goes_on(machines: list[Machine], tmp_path: pathlib.Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hangs:
        config = f"[fleet]\n[[fleet.hosts]]\nname = 'hangs'\nurl = 'http://127.0.0.1:{hangs.getsockname()[1]}'\n"
        machines.append(Machine(tmp_path / "shows", "1xT4", config))
        machines[0].up()
        silent = until(
            lambda: machines[0].hosts()["hangs"], lambda host: host["reason"] == "host_not_heard", pause_s=0.1
        )
        assert "did not answer" in silent["error"]
        first = machines[0].ask("/status")["at"]
        until(lambda: machines[0].ask("/status")["at"], lambda at: at > first, pause_s=0.1)
        os.kill(machines[0].process.pid, 0)  # type: ignore[union-attr]
