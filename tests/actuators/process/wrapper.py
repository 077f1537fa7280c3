"""A wrapper as `fallow run` is one, with nothing but the hands: watch a job, end as it ended.

wrapper.py watch CMD...   until it ends
wrapper.py end CMD...     until a line comes on CONTROL_FD; then ask, wait for moments, insist
wrapper.py help CMD...    the same, but first it runs a program of its own
"""

import os
import select
import signal
import sys

from fallow.actuators.process import programs
from fallow.actuators.process.foreground_job import Supervision, end_as
from fallow.core.errors import FallowError
from fallow.engine.machine.clock import SystemClock
from fallow.readers.proc import Proc

REPORT = int(os.environ["REPORT_FD"])
CONTROL = int(os.environ["CONTROL_FD"])


def say(text: str) -> None:
    os.write(REPORT, f"wrapper: {text}\n".encode())


def end_of_job(job: Supervision) -> None:
    say(f"asked {job.tree.ask(signal.SIGTERM)}")
    say(f"gone {job.wait_for_tree(0.1)}")
    survivors = job.tree.kill(20.0)
    say(f"survivors {survivors}")
    say(f"ended {job.wait_for_job(0.0)}")


def main(mode: str, command: list[str]) -> None:
    clock = SystemClock()
    try:
        job = Supervision(
            command[0],
            command,
            os.environ,
            table=Proc(),
            monotonic_s=clock.monotonic_s,
        )
    except FallowError as error:
        say(str(error))
        sys.exit(error.exit_code)
    if mode != "watch":
        select.select([CONTROL], [], [])
        if mode == "help":
            helper = programs.run(["sh", "-c", "exit 7"], os.environ, 30.0)
            say(f"helper {helper.ended}, job {job.wait_for_job(0.0)}")
        end_of_job(job)
        sys.exit(124)
    while (ended := job.wait_for_job(1.0)) is None:
        pass
    job.close()
    end_as(ended)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
