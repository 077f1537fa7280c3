"""`fallow stop --idle` leaves a job that works with pauses, whatever a rule counts."""

import json
import pathlib

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill
from tests.interfaces.cli.stopped import ALONE, Job
from tests.waiting import until

WORKS_AND_PAUSES = f"""{ALONE}
import pathlib, time
rounds = 0
while True:
    end = time.monotonic() + 2
    used = time.process_time() + 0.5  # so that it works also where it gets little of the CPU
    while time.monotonic() < end or time.process_time() < used:
        pass
    rounds += 1
    pathlib.Path("ROUNDS").write_text(str(rounds))
    time.sleep(6)
"""
RULE = "[[idle]]\nname = 'only-reports'\nidle_for = '2h'\nwarmup = '0s'\n"


@pytest.mark.more
def test_a_job_that_works_for_2_seconds_and_pauses_for_6_is_never_idle_though_a_rule_counts_its_pauses(
    simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    config, rounds = tmp_path / "its.toml", tmp_path / "rounds"
    config.write_text(f"[page]\nenabled = false\n{RULE}")
    config.chmod(0o600)
    rounds.write_text("0")
    Fill(simulated.start("up", "--config", str(config))).until("up, ")
    job = Job(simulated.on("1"), WORKS_AND_PAUSES.replace("ROUNDS", str(rounds)))
    try:
        until(lambda: int(rounds.read_text() or 0) >= 1)
        answers = []
        while int(rounds.read_text() or 0) < 3:
            done = simulated("stop", "1", "--idle", "--dry-run", "--json")
            (found,) = json.loads(done.stdout)["jobs"]
            answers.append((found["outcome"], found["idle_s"]))
        assert set(answers) == {("left", None)}, answers
        assert job.lives
    finally:
        job.end()
