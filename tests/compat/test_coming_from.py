"""What the guide recommends in fallow's own words, for the tools that fill idle cards: each line runs."""

import re
import shlex

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill, wait_for_lines
from tests.places import LIMIT_S, REPOSITORY

GUIDE = (REPOSITORY / "docs" / "guides" / "coming-from.md").read_text()
LOOP = """
import os, time
with open(os.environ["HOME"] + "/ran", "a") as file:
    file.write("x\\n")
time.sleep(1000)
"""


def recommended(heading: str) -> list[str]:
    """The command lines in the part of the guide that is about one tool."""
    found = re.search(rf"^## {re.escape(heading)}\n.*?```sh\n(.*?)```", GUIDE, re.MULTILINE | re.DOTALL)
    assert found
    return found[1].splitlines()


LINES = [*recommended("gpu_mon"), *recommended('The stressor "GPU Sentinel"')]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.more
def test_what_the_guide_recommends_fills_idle_cards(simulated: Fallow, line: str) -> None:
    programs = simulated.home / "bin"
    programs.mkdir()
    (programs / "miner-run").write_text('#!/bin/sh\necho x >> "$HOME/ran"\nexec sleep 1000\n')
    (programs / "miner-run").chmod(0o755)
    (simulated.home / "my_loop.py").write_text(LOOP)
    line = line.replace("user1", "root").replace("user2", "nobody")  # users that this machine has
    words = shlex.split(line.replace("10s", "1s").replace("my_loop.py", str(simulated.home / "my_loop.py")))
    running = Fill(simulated.start(*words[1:], PATH=f"{programs}:{simulated.environ['PATH']}"))
    running.until("filling it")
    if "burn" not in words:
        wait_for_lines(simulated.home / "ran", 1)
    running.process.terminate()
    assert running.process.wait(LIMIT_S) == -15
    assert not any("ended with exit code" in said for said in running.said)
