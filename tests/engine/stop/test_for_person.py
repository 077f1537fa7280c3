"""A person of the page stops what their user may stop, and nothing else: the kernel is the judge."""

import json
import os
import pathlib
import pwd
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fallow.core.account import Account
from fallow.core.value import replace
from fallow.engine.history.journal import Journal
from fallow.engine.machine.world import World
from fallow.engine.stop.for_person import StopAnswer, StoppedOne, StopsForPersons, is_subject, understood
from fallow.readers.accounts import account
from tests.places import LIMIT_S

WORKER = pwd.getpwnam("daemon")
FACTS = {
    "subject": "ada's job 7 (python)",
    "keys": ["pid:7@8", "gpu:GPU-1"],
    "gpus": ["0"],
    "memory_bytes": 5,
    "idle_s": None,
    "way": "send SIGTERM",
    "outcome": "untouched",
    "because": "",
}


def printed(**changes: object) -> str:
    return json.dumps({"version": 1, "jobs": [{**FACTS, **changes}]}, indent=2)


def test_what_the_command_answers_is_read_beside_what_it_says() -> None:
    noise = json.dumps({"level": "note", "message": "the daemon was not asked"})
    (job,) = understood(f"{noise}\n{printed()}\n{noise}\n").jobs
    assert (job.name, job.processes, job.outcome) == ("ada's job 7 (python)", ("pid:7@8",), "untouched")


@pytest.mark.parametrize(
    "output",
    [
        "",
        "{\n}",
        "{\nnonsense\n}",
        "{\n" + '"jobs": 3' + "\n}",
        "{\n" + '"jobs": [3]' + "\n}",
        printed(keys=3),
        printed(gpus=None),
        "Traceback (most recent call last):\n  ...",
        "}\n{",
        '{"message": 5}',
        "\x00\ufffd" * 1000,
    ],
)
def test_an_answer_of_any_shape_is_a_sentence_or_jobs(output: str) -> None:
    answer = understood(output)
    assert answer.refused or answer.jobs
    assert len(answer.refused) < 500


def test_keys_that_name_no_process_are_dropped_and_text_is_bounded() -> None:
    wild = ["pid:1", "pid:1@2; rm", "--yes", "pid:-1@3", "user:root", "pid:7@8"]
    (job,) = understood(printed(keys=wild, because="x\x1b[2J" * 1000)).jobs
    assert job.keys == ("pid:7@8",)
    assert len(job.because) <= 400
    assert "\x1b" not in job.because


def test_the_last_sentence_is_why_there_is_no_answer() -> None:
    said = [{"level": "note", "message": "first"}, {"level": "error", "message": "GPU 3 is not yours"}]
    assert understood("\n".join(map(json.dumps, said))) == StopAnswer(refused="GPU 3 is not yours")


@pytest.mark.parametrize("text", ["gpu:0", "gpu:GPU-fa11", "pid:12", "pid:12@34", "container:vllm", "mine"])
def test_what_a_person_may_name(text: str) -> None:
    assert is_subject(text)


@pytest.mark.parametrize(
    "text", ["", "all", "--yes", "-y", "user:root", "slurm:1", "gpu:", "gpu:-1", "pid:--yes", "gpu:0\n--yes", "gpu:é"]
)
def test_what_no_form_of_the_page_sends_is_no_subject(text: str) -> None:
    assert not is_subject(text)


LOADS_NOTHING_LATER = """
import json, sys
from fallow.interfaces.cli import as_user

class Refuses:
    def find_spec(self, name, path, target=None):
        raise ModuleNotFoundError(name, name=name)

def become(user):
    sys.meta_path.insert(0, Refuses())

as_user._become = become
as_user.main()
"""


@pytest.mark.parametrize("subject", ["gpu:x", "container:x", "pid:1", "mine"])
def test_who_cannot_read_the_library_of_python_is_told_why_nothing_is_stopped(
    subject: str, tmp_path: pathlib.Path
) -> None:
    me = pwd.getpwuid(os.geteuid())
    environ = {"FALLOW_SIMULATE": "1xH100", "FALLOW_SOCKET": str(tmp_path / "none"), "HOME": str(tmp_path)}
    order = {
        "account": [me.pw_name, me.pw_uid, me.pw_gid, me.pw_dir, me.pw_shell],
        "command": ["--log-format=json", "stop", "--json", "--dry-run", subject],
        "environ": {
            **environ,
            "FALLOW_CLAIM_DIR": str(tmp_path / "claims"),
            "FALLOW_STATE_DIR": str(tmp_path / "state"),
        },
    }
    words = [sys.executable, "-I", "-c", LOADS_NOTHING_LATER]
    done = subprocess.run(
        words, input=json.dumps(order), capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    answer = understood(done.stdout + done.stderr)
    assert answer.refused
    assert "not installed" not in answer.refused, answer.refused
    assert "did not answer" not in answer.refused, done.stderr


class Machine:
    """Root's daemon on a simulated machine with two GPUs, and those who hold them."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.environ = {
            "PATH": "/usr/bin:/bin",
            "FALLOW_SIMULATE": "2xH100",
            "FALLOW_CLAIM_DIR": str(folder / "claims"),
            "FALLOW_SOCKET": str(folder / "none.sock"),
            "FALLOW_STATE_DIR": str(folder / "state"),
            "SECRET": "of-root",
        }
        self.world = World(self.environ)
        self.journal = Journal(str(folder / "state"), self.world.clock.wall_s, print)
        self.stops = StopsForPersons(self.world, self.journal)
        self.started: list[subprocess.Popen[bytes]] = []

    def holder(self, gpu: int, uid: int) -> subprocess.Popen[bytes]:
        environ = {**self.environ, "CUDA_VISIBLE_DEVICES": str(gpu)}
        made = subprocess.Popen(["sleep", "1000"], env=environ, user=uid, group=uid, extra_groups=[])
        self.started.append(made)
        return made

    def job(self, holder: subprocess.Popen[bytes], birth_off: int = 0) -> StoppedOne:
        """That process as a job that was shown; with another birth, one whose number is in use again."""
        stat = self.world.proc.stat(holder.pid)
        assert stat is not None
        return StoppedOne(
            "a job", "0", None, None, "", "untouched", "", (f"pid:{holder.pid}@{stat.birth + birth_off}",)
        )


@pytest.fixture
def machine(open_folder: pathlib.Path) -> Iterator[Machine]:
    open_folder.chmod(0o1777)
    made = Machine(open_folder)
    yield made
    for process in made.started:
        process.kill()
        process.wait(LIMIT_S)
    made.journal.close()
    made.world.close()


def worker() -> Account:
    found = account(WORKER.pw_name)
    assert found is not None
    return found


@pytest.mark.more
@pytest.mark.as_root
def test_a_person_stops_their_own_job_and_the_daemons_journal_has_it(machine: Machine) -> None:
    mine = machine.holder(0, WORKER.pw_uid)
    (job,) = machine.stops.look(worker(), ["gpu:0"]).ready
    assert mine.poll() is None, "a look touches nothing"
    assert job.name == f"{WORKER.pw_name}'s job {mine.pid} (sleep)"
    assert machine.journal.last(None) == []
    (ended,) = machine.stops.stop(worker(), [job], dry_run=False).jobs
    assert ended.outcome == "stopped"
    assert mine.wait(LIMIT_S) == -15
    outcome, action = machine.journal.last(f"pid:{mine.pid}")
    assert (action.kind, action.step, action.because) == ("action", "ask", f"stopped by hand by {WORKER.pw_name}")
    assert (outcome.kind, outcome.step) == ("outcome", "stopped")


@pytest.mark.as_root
def test_a_process_that_has_ended_or_whose_number_is_in_use_again_is_not_touched(machine: Machine) -> None:
    other = machine.holder(0, os.geteuid())
    me = account(str(os.geteuid()))
    assert me is not None
    answer = machine.stops.stop(me, [machine.job(other, birth_off=-1)], dry_run=False)
    assert "has ended meanwhile" in answer.refused
    assert other.poll() is None


def test_a_user_who_is_another_by_now_stops_nothing(machine: Machine) -> None:
    me = account(str(os.geteuid()))
    assert me is not None
    assert "any more" in machine.stops.look(replace(me, uid=me.uid + 1), ["gpu:0"]).refused
    assert "any more" in machine.stops.look(replace(me, name="nobdy"), ["gpu:0"]).refused


@pytest.mark.as_root
def test_nothing_of_roots_environment_is_given_to_a_person(machine: Machine) -> None:
    order = json.loads(machine.stops._order(worker(), ["stop"]))
    assert order["environ"]["HOME"] == WORKER.pw_dir
    assert order["environ"]["FALLOW_SIMULATE"] == "2xH100"
    assert not {"SECRET", "FALLOW_STATE_DIR"} & order["environ"].keys()
