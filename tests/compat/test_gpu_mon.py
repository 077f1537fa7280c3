"""gpu_mon's two configurations, run: who gets a program, and who makes it leave."""

import os
import pathlib
import re
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.compat.documents import DATA, blocks, ours
from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill, wait_for_end, wait_for_lines
from tests.waiting import end

ALL_TOGETHER, EACH_ALONE = blocks("gpu_mon", "ini")
COMMAND = ours(re.findall(r"run `(.*?)`", (DATA / "gpu_mon.md").read_text())[0]).split()[1:]
MINER = "#!/bin/sh\necho $$ $CUDA_VISIBLE_DEVICES >> $HOME/mined\nexec sleep 1000\n"


@pytest.fixture
def file(simulated: Fallow) -> pathlib.Path:
    """The file of gpu_mon, and a `miner-run` on the PATH."""
    made, programs = simulated.home / ".config" / "gpu_mon.conf", simulated.home / "bin"
    for folder in (made.parent, programs):
        folder.mkdir()
    (programs / "miner-run").write_text(MINER)
    (programs / "miner-run").chmod(0o755)
    simulated.environ["PATH"] = f"{programs}:{simulated.environ['PATH']}"
    return made


@pytest.fixture
def mon(simulated: Fallow, file: pathlib.Path) -> Callable[[str], Fill]:
    """Runs it, at ten times the document's pace."""

    def run(text: str) -> Fill:
        file.write_text(text.replace("interval_seconds=10", "interval_seconds=1"))
        return Fill(simulated.start(*COMMAND, "-c", str(file)))

    return run


@pytest.fixture
def somebody(simulated: Fallow) -> Iterator[Callable[[str], "subprocess.Popen[bytes]"]]:
    """Begins to use a GPU."""
    came: list[subprocess.Popen[bytes]] = []

    def come(gpu: str) -> "subprocess.Popen[bytes]":
        came.append(subprocess.Popen(["sleep", "1000"], env=simulated.on(gpu)))
        return came[-1]

    yield come
    for each in came:
        end(each)


Come = Callable[[str], "subprocess.Popen[bytes]"]


def miners(fallow: Fallow, count: int) -> dict[str, int]:
    """The pid of each that was started, by the last letter of its GPUs' UUIDs."""
    rows = [line.split() for line in wait_for_lines(fallow.home / "mined", count)]
    return {"".join(uuid[-1] for uuid in gpus.split(",")): int(pid) for pid, gpus in rows}


def test_the_first_example_runs_one_program_on_all_cards_while_nobody_uses_any(
    simulated: Fallow, mon: Callable[[str], Fill], somebody: Come
) -> None:
    first = somebody("1")
    running = mon(ALL_TOGETHER)
    running.until(f"GPUs 0,1,2,3: left alone: pid {first.pid}")
    assert not (simulated.home / "mined").exists()
    end(first)
    running.until("GPUs 0,1,2,3: filling it")
    pid = miners(simulated, 1)["0123"]
    newcomer = somebody("3")
    assert f"pid {newcomer.pid} " in running.until("giving it back")
    wait_for_end([pid])
    assert newcomer.poll() is None


@pytest.mark.more
def test_the_second_example_gives_each_program_its_card_and_takes_back_the_one_that_is_used(
    simulated: Fallow, mon: Callable[[str], Fill], somebody: Come
) -> None:
    running = mon(EACH_ALONE)
    pids = miners(simulated, 2)
    assert pids.keys() == {"0", "1"}, "the others are in no section"
    somebody("0")
    running.until("GPU 0: given back")
    wait_for_end([pids["0"]])
    os.kill(pids["1"], 0)
    assert not running.told("GPU 1: giving")


def test_a_card_that_the_machine_does_not_have_is_refused(simulated: Fallow, file: pathlib.Path) -> None:
    file.write_text("[process-x]\ncmd=miner-run\ngpus=7\n")
    done = simulated(*COMMAND, "-c", str(file))
    assert (done.returncode, "there is no GPU '7' here" in done.stderr) == (2, True)


@pytest.mark.as_root
def test_root_runs_no_program_from_a_file_that_others_could_have_written(
    simulated: Fallow, file: pathlib.Path
) -> None:
    file.write_text(ALL_TOGETHER)
    file.chmod(0o666)
    done = simulated(*COMMAND, "-c", str(file))
    assert (done.returncode, f"others may write to {file}" in done.stderr) == (78, True)
