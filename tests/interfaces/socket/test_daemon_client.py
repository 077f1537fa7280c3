"""status, why, protect and report ask the daemon where there is one, and answer as they would without it."""

import json
import os
import pathlib
import socket
import subprocess
import threading
from contextlib import suppress
from typing import Any

import pytest

from tests.actuators.claims.test_users import ADA, BOB, Users
from tests.conftest import Fallow
from tests.engine.history.life import life, record
from tests.interfaces.socket.conftest import Start
from tests.places import LIMIT_S, NO_DAEMON
from tests.standin import World

LONG_AGO_S = 1_700_000_100.0


def told(fallow: Fallow, *words: str, **variables: str) -> Any:
    done = fallow(*words, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def shape(what: object) -> object:
    """The same fields and kinds, whatever the values are."""
    if isinstance(what, dict):
        return {name: shape(value) for name, value in what.items() if name != "unknown"}
    if isinstance(what, list):
        return [shape(each) for each in what[:1]]
    return "a value"


def test_status_tells_the_time_that_the_daemon_has_witnessed(
    simulated: Fallow, daemon: subprocess.Popen[str]
) -> None:
    asked, alone = told(simulated, "status", "--json"), told(simulated, "status", "--json", **NO_DAEMON)
    assert shape(asked) == shape(alone)
    assert all(gpu["for_s"] is not None for gpu in asked["gpus"])
    assert all(gpu["for_s"] is None for gpu in alone["gpus"])
    assert [gpu["uuid"] for gpu in told(simulated, "status", "--json", "2")["gpus"]] == [alone["gpus"][2]["uuid"]]
    assert "for" in simulated("status").stdout.splitlines()[1].split()
    assert "for" not in simulated("status", **NO_DAEMON).stdout.splitlines()[1].split()


def test_when_a_rule_stops_a_job_is_in_the_line_of_its_gpu(
    simulated: Fallow, start_daemon: Start, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "daemon").mkdir()
    start_daemon({**simulated.environ, "FALLOW_STATE_DIR": str(tmp_path / "daemon"), "STOPS_OF_TEST": "18"})
    with_note = [line.split()[0] for line in simulated("status").stdout.splitlines() if "stops in 18s" in line]
    assert with_note == ["2"]
    assert "a rule stops its job in 18s" in simulated("status", "-l").stdout
    assert "stops in" not in simulated("status", **NO_DAEMON).stdout
    assert [gpu["stops_at"] is None for gpu in told(simulated, "status", "--json")["gpus"]] == [
        True,
        True,
        False,
        True,
    ]


@pytest.mark.more
def test_watch_goes_on_alone_when_the_daemon_ends(simulated: Fallow, daemon: subprocess.Popen[str]) -> None:
    watching = simulated.start("status", "--watch=100ms", "--json", "-v")
    assert watching.stdout is not None
    assert json.loads(watching.stdout.readline())["gpus"][0]["for_s"] is not None
    daemon.kill()
    daemon.wait(LIMIT_S)
    assert watching.stderr is not None
    assert "the daemon is left out" in watching.stderr.readline()
    later = [json.loads(watching.stdout.readline())["gpus"][0]["for_s"] for _ in range(40)]
    assert 0 in later, "witnessed anew, by ourselves"


@pytest.mark.more
def test_why_has_what_both_journals_have(simulated: Fallow, daemon: subprocess.Popen[str]) -> None:
    (event,) = told(simulated, "why", "0", "--json")["events"]
    assert event["because"] == "the small daemon says so"
    assert event["evidence"] == {"utilization": "0%"}
    assert told(simulated, "why", "0", "--json", **NO_DAEMON)["events"] == []
    own = ("run", "--gpus", "0", "--warmup", "0", "--idle-timeout", "1s", "--every", "100ms", "--", "sleep", "60")
    assert simulated(*own).returncode == 124
    events = told(simulated, "why", "--json")["events"]
    assert {"the small daemon says so"} < {event["because"] for event in events}
    assert [event["at"] for event in events] == sorted((event["at"] for event in events), reverse=True)


def test_where_both_journals_are_one_each_event_is_told_once(simulated: Fallow, start_daemon: Start) -> None:
    start_daemon(simulated.environ)
    assert len(told(simulated, "why", "0", "--json")["events"]) == 1


def test_protections_are_placed_listed_and_released_through_the_daemon(
    simulated: Fallow, daemon: subprocess.Popen[str], tmp_path: pathlib.Path
) -> None:
    elsewhere = {"FALLOW_CLAIM_DIR": str(tmp_path / "nowhere")}
    (placed,) = told(simulated, "protect", "gpu:1", "--for", "1h", "--why", "mine", "--json", **elsewhere)[
        "protections"
    ]
    assert placed["why"] == "mine"
    assert told(simulated, "protect", "--list", "--json", **elsewhere)["protections"] == [placed]
    assert told(simulated, "protect", "--list", "--json", **NO_DAEMON)["protections"] == [placed], (
        "it lies where everybody looks"
    )
    (ours,) = told(simulated, "protect", f"pid:{os.getpid()}", "--for", "1h", "--json")["protections"]
    assert ours["subject"].startswith(f"pid:{os.getpid()}@")
    assert simulated("protect", "--release", str(placed["id"]), **elsewhere).returncode == 0
    assert told(simulated, "protect", "--list", "--json")["protections"] == [ours]
    assert "there is no protection 9" in simulated("protect", "--release", "9").stderr


@pytest.mark.more
def test_a_report_from_the_daemon_is_the_same_as_from_its_file(
    simulated: Fallow, start_daemon: Start, tmp_path: pathlib.Path
) -> None:
    folder = {"FALLOW_STATE_DIR": str(tmp_path / "daemon")}
    record(tmp_path / "daemon" / "simulated", life(0.05, cards=3, start_s=LONG_AGO_S))
    start_daemon({**simulated.environ, **folder})
    differs = dict.fromkeys(("since", "until", "made", "gaps"))  # by the moment, and by where it was read
    for by in ("gpu", "user", "job", "day", "week"):
        words = ("report", "--since", "520w", "--price", "2/h", "--by", by, "--format", "json")
        asked, alone = told(simulated, *words), told(simulated, *words, **folder, **NO_DAEMON)
        assert (by, len(asked["gpus"]), asked["total"]["observed_s"] > 0) == (by, 3, True)
        assert {**asked, **differs} == {**alone, **differs}, by
        assert asked["hours"]
    assert "there is no history" in simulated(*words, **NO_DAEMON).stderr
    page = simulated("report", "--since", "520w", "--format", "html")
    assert (page.returncode, page.stdout.count("<svg") > 3) == (0, True)


def test_a_daemon_on_simulated_gpus_answers_only_who_simulates_the_same(
    simulated: Fallow, daemon: subprocess.Popen[str], world: World
) -> None:
    for other in ("", "2xH100", "4xT4"):
        done = simulated("status", "--json", "-v", FALLOW_SIMULATE=other)
        assert json.loads(done.stdout)["simulated"] is bool(other), other
        assert all(gpu["for_s"] is None for gpu in json.loads(done.stdout)["gpus"]), other
        assert "the daemon is on simulated GPUs (4xH100), and others were asked for" in done.stderr, other
    same = told(simulated, "status", "--json", FALLOW_SIMULATE="4")
    assert same["gpus"][0]["for_s"] is not None, "another word for the same machine"


HANG_UP = b""


def answer_with(path: pathlib.Path, *lines: bytes) -> socket.socket:
    """Something at the daemon's place that reads each request, says this, and then nothing more."""
    path.parent.mkdir(mode=0o755, exist_ok=True)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def answer() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection, suppress(ConnectionError):
                    connection.recv(65536)
                    connection.sendall(b"".join(lines))
                    if HANG_UP not in lines:
                        connection.recv(1)  # until they have had enough of it

    threading.Thread(target=answer, daemon=True).start()
    return listening


def http(body: bytes, status: bytes = b"200 OK", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (status, size, body)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ((), "did not answer within 1.5 s"),
        ((http(b'{"version": 9, "gpus": []}'), HANG_UP), "it speaks version 9 of the API, this fallow speaks 1"),
        ((http(b'{"detail": "?", "version": 2}', b"404 Not Found"), HANG_UP), "it speaks version 2"),
        ((http(b'{"version": 1, "detail": "too early", "reason": "early"}', b"503 x"), HANG_UP), "too early"),
        ((b"rubbish\n", HANG_UP), "makes no sense"),
        ((http(b"[]"), HANG_UP), "makes no sense"),
        ((http(b"[" * 100_000), HANG_UP), "makes no sense"),
        ((http(b'{"version": 1, "host": "x"}'), HANG_UP), "makes no sense"),
        ((http(b'{"version": 1}', length=99), HANG_UP), "makes no sense"),
        ((http(b'{"version": 1}'),), "did not answer within 1.5 s"),
        ((HANG_UP,), "busy with others"),
    ],
    ids=str,
)
def test_a_daemon_that_makes_no_sense_is_left_out(simulated: Fallow, lines: tuple[bytes, ...], says: str) -> None:
    with answer_with(pathlib.Path(simulated.environ["FALLOW_SOCKET"]), *lines):
        done = simulated("status", "--json", "-v", FALLOW_DAEMON_TIMEOUT="1.5s")
    assert done.returncode == 0
    assert len(json.loads(done.stdout)["gpus"]) == 4
    assert says in done.stderr


def test_a_dead_daemon_is_left_out_and_without_v_nothing_is_said(simulated: Fallow) -> None:
    path = pathlib.Path(simulated.environ["FALLOW_SOCKET"])
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    done = simulated("status", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "nobody listens at" in simulated("status", "--json", "-v").stderr


def test_of_a_daemon_that_is_busy_nobody_says_that_it_has_no_history_and_watches_nothing(simulated: Fallow) -> None:
    with answer_with(pathlib.Path(simulated.environ["FALLOW_SOCKET"]), HANG_UP):
        report = simulated("report")
        why = simulated("why", "0")
    assert "there is no history" not in report.stderr
    assert "the daemon could not be asked for its history: it is busy with others" in report.stderr
    assert report.returncode == 125
    assert "does not run" not in why.stdout
    assert "the journal has no entries" not in why.stdout
    assert "it is busy with others" in why.stderr


def test_a_report_says_so_if_who_told_the_hours_did_not_tell_their_price(simulated: Fallow) -> None:
    card = {"uuid": "GPU-1", "label": "0", "name": "H100", "host": "box", "simulated": True}
    told = json.dumps({"version": 1, "gpus": [card], "tallies": [], "quarters": []}).encode()
    with answer_with(pathlib.Path(simulated.environ["FALLOW_SOCKET"]), http(told), HANG_UP):
        report = simulated("report", FALLOW_DAEMON_TIMEOUT="30s")
    assert "the daemon did not tell its prices; those of the config here count" in report.stderr


@pytest.mark.as_root
def test_an_impostor_is_not_believed(open_folder: pathlib.Path) -> None:
    users = Users(open_folder)
    path = pathlib.Path(users.environ["FALLOW_SOCKET"])
    program = (
        "import os, socket, sys\n"
        f"os.setresgid({BOB}, {BOB}, {BOB}); os.setresuid({BOB}, {BOB}, {BOB})\n"
        f"s = socket.socket(socket.AF_UNIX); s.bind({str(path)!r}); os.chmod({str(path)!r}, 0o666); s.listen()\n"
        "print('ready', flush=True); sys.stdin.read()\n"
    )
    path.parent.mkdir()
    path.parent.chmod(0o1777)
    with subprocess.Popen(
        ["python3", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as bob:
        assert bob.stdout is not None
        assert bob.stdout.readline() == "ready\n"
        code, out, err = users.run(ADA, "status", "--json", "-v")
        bob.communicate("", timeout=LIMIT_S)
    assert code == 0
    assert f"runs as user {BOB}, which is neither root nor you" in err
    assert len(json.loads(out)["gpus"]) == 2
