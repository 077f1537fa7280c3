"""gpu_mon's two configurations, run: who gets a program, who makes it leave, on any number of cards."""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.compat.documents import DATA, blocks, ours
from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill, wait_for_end, wait_for_lines
from tests.standin import Process, World
from tests.waiting import end

ALL_TOGETHER, EACH_ALONE = blocks("gpu_mon", "ini")
COMMAND = ours(re.findall(r"run `(.*?)`", (DATA / "gpu_mon.md").read_text())[0])
MINER = "#!/bin/sh\necho $$ $CUDA_VISIBLE_DEVICES $PWD >> $HOME/mined\necho mining\nexec sleep 1000\n"
# Opens the node so often as its first word says, keeps it open, and says so.
OPENER = "import sys\nkept = [open(sys.argv[2]) for _ in range(int(sys.argv[1]))]\nprint('open', flush=True)\ninput()"
CUDA_OPENS, MONITORS_OPEN = "15", "3"


class Machine:
    """Some cards, a `miner-run` on the PATH, and a file for gpu_mon."""

    def __init__(self, fallow: Fallow, world: World) -> None:
        self.fallow = fallow
        self.world = world
        self.mined = fallow.home / "mined"
        self.file = fallow.home / ".config" / "gpu_mon.conf"
        self.file.parent.mkdir(exist_ok=True)
        programs = fallow.home / "bin"
        programs.mkdir(exist_ok=True)
        (programs / "miner-run").write_text(MINER)
        (programs / "miner-run").chmod(0o755)
        fallow.environ["PATH"] = f"{programs}:{fallow.environ['PATH']}"
        self.words = (*COMMAND.split()[1:], "-c", str(self.file))
        self._came: list[subprocess.Popen[str]] = []

    def mon(self, text: str, *words: str) -> Fill:
        """Run it, at ten times the document's pace."""
        self.file.write_text(text.replace("interval_seconds=10", "interval_seconds=1"))
        return Fill(self.fallow.start(*self.words, *words))

    def opens(self, card: int, times: str = CUDA_OPENS, name: str = sys.executable) -> subprocess.Popen[str]:
        """A program that has the device file of a card open."""
        node = f"{self.fallow.environ['FALLOW_DEVICES']}/nvidia{card}"
        came = subprocess.Popen(
            [name, "-c", OPENER, times, node],
            executable=sys.executable,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._came.append(came)
        assert came.stdout is not None
        assert came.stdout.readline()
        return came

    def uses(self, card: int, name: str = sys.executable) -> subprocess.Popen[str]:
        """A program that has memory on a card, too."""
        came = self.opens(card, name=name)
        self.world[card].compute, self.world[card].memory_used = [Process(came.pid, 2**30)], 2**30
        return came

    def leaves(self, card: int) -> None:
        self.world[card].compute, self.world[card].memory_used = [], 0

    def miners(self, count: int) -> list[tuple[int, str]]:
        """Pid and CUDA_VISIBLE_DEVICES of the first so many that were started."""
        rows = [line.split() for line in wait_for_lines(self.mined, count)]
        return [(int(pid), cards) for pid, cards, _ in rows]

    def uuids(self, *cards: int) -> str:
        return ",".join(self.world[card].uuid for card in cards)

    def close(self) -> None:
        for came in self._came:
            end(came)


@pytest.fixture
def machine(
    make_world: Callable[..., World], fallow: Fallow, tmp_path: pathlib.Path
) -> Iterator[Callable[[int], Machine]]:
    made: list[Machine] = []

    def make(cards: int) -> Machine:
        world = make_world(cards=cards)
        fallow.environ.update(world.nodes(tmp_path / "dev"))
        made.append(Machine(fallow, world))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("cards", [1, 2, 5])
@pytest.mark.more
def test_the_first_example_runs_one_program_on_all_cards_until_any_is_opened(
    machine: Callable[[int], Machine], cards: int
) -> None:
    box = machine(cards)
    running = box.mon(ALL_TOGETHER)
    ((pid, seen),) = box.miners(1)
    assert seen == box.uuids(*range(cards))
    box.opens(cards - 1, MONITORS_OPEN, name="nvidia-smi")
    newcomer = box.opens(cards - 1)
    assert f"giving it back: pid {newcomer.pid} of " in running.until("giving it back"), "nvidia-smi is ignored"
    wait_for_end([pid])
    assert newcomer.poll() is None


def test_the_first_example_starts_nothing_while_one_of_several_cards_is_used(
    machine: Callable[[int], Machine],
) -> None:
    box = machine(3)
    box.uses(1)
    running = box.mon(ALL_TOGETHER)
    running.until("GPUs 0,1,2: left alone: pid")
    assert not box.mined.exists()
    box.leaves(1)
    running.until("GPUs 0,1,2: filling it")
    assert box.miners(1)[0][1] == box.uuids(0, 1, 2)


@pytest.mark.more
def test_the_second_example_gives_each_program_its_card_and_takes_back_the_one_that_is_opened(
    machine: Callable[[int], Machine],
) -> None:
    box = machine(3)
    running = box.mon(EACH_ALONE)
    pids = {cards: pid for pid, cards in box.miners(2)}
    assert pids.keys() == {box.uuids(0), box.uuids(1)}, "the third card is in no section"
    box.opens(0)
    running.until("GPU 0: given back")
    wait_for_end([pids[box.uuids(0)]])
    os.kill(pids[box.uuids(1)], 0)
    assert not running.told("GPU 1: giving")


@pytest.mark.more
def test_on_a_machine_with_fewer_cards_the_second_example_has_those_that_are_there(
    machine: Callable[[int], Machine],
) -> None:
    box = machine(1)
    running = box.mon(EACH_ALONE)
    running.until("[process-1] goes without GPU 1, which is not shown here")
    assert [cards for _, cards in box.miners(1)] == [box.uuids(0)]
    box.file.write_text("[process-x]\ncmd=miner-run\ngpus=7\n")
    done = box.fallow(*box.words)
    assert (done.returncode, "none of the GPUs that the file names" in done.stderr) == (2, True)


@pytest.mark.more
def test_a_program_that_is_ignored_may_use_its_cards(machine: Callable[[int], Machine]) -> None:
    box = machine(2)
    box.uses(0, name="watcher")
    box.mon(ALL_TOGETHER.replace("=nvidia-smi", "=nvidia-smi, watcher"))
    assert box.miners(1)[0][1] == box.uuids(0, 1)


@pytest.mark.more
def test_a_program_runs_in_its_folder_and_its_output_is_appended_to_its_log(
    machine: Callable[[int], Machine], tmp_path: pathlib.Path
) -> None:
    box = machine(1)
    log, folder = tmp_path / "miner.log", tmp_path / "folder"
    log.write_text("before\n")
    folder.mkdir()
    box.mon(ALL_TOGETHER.replace("log=/dev/null", f"log={log}").replace("dir=/tmp", f"dir={folder}"))
    assert wait_for_lines(log, 2) == ["before", "mining"]
    assert wait_for_lines(box.mined, 1)[0].endswith(str(folder))


@pytest.mark.more
def test_without_a_log_its_output_is_on_the_console_and_the_file_may_be_named(
    machine: Callable[[int], Machine], tmp_path: pathlib.Path
) -> None:
    box = machine(1)
    named = tmp_path / "other.conf"
    named.write_text("[defaults]\ninterval_seconds=1\n[process-all]\ncmd=miner-run\n")
    running = box.mon("not a config", "-c", str(named))
    assert running.process.stdout is not None
    assert running.process.stdout.readline() == "mining\n"


@pytest.mark.as_root
def test_root_runs_no_program_from_a_file_that_others_could_have_written(machine: Callable[[int], Machine]) -> None:
    box = machine(1)
    box.file.write_text(ALL_TOGETHER)
    box.file.chmod(0o666)
    done = box.fallow(*box.words)
    assert (done.returncode, f"others may write to {box.file}" in done.stderr) == (78, True)


class Person:
    """Somebody who is logged in at a terminal, as the machine of the tool sees it."""

    def __init__(self, box: Machine, user: str) -> None:
        if os.geteuid() != 0:
            pytest.skip("a /run of its own needs root")
        self.box = box
        self._terminal = box.fallow.home / "terminals" / "pts" / "0"
        self._terminal.touch()
        (box.fallow.home / "sessions").mkdir()
        (box.fallow.home / "sessions" / "1").write_text(f"USER={user}\nTTY=pts/0\nCLASS=user\nSTATE=active\n")

    def was_here(self, ago_s: float) -> None:
        at = time.time() - ago_s
        os.utime(self._terminal, (at, at))

    def mon(self, text: str) -> Fill:
        self.box.file.write_text(text.replace("interval_seconds=10", "interval_seconds=1"))
        sessions = shlex.quote(str(self.box.fallow.home / "sessions"))
        there = f"mkdir /run/systemd && cp -r {sessions} /run/systemd"
        script = f"mount -t tmpfs none /run && {there} && exec {COMMAND} -c {self.box.file}"
        return Fill(self.box.fallow.start_other("unshare", "--mount", "sh", "-c", script))


@pytest.fixture
def person(machine: Callable[[int], Machine]) -> Callable[[str], Person]:
    return lambda user: Person(machine(2), user)


@pytest.mark.more
def test_a_user_who_was_away_for_so_long_does_not_count_until_they_are_back(
    person: Callable[[str], Person],
) -> None:
    ada = person("ada")
    ada.was_here(ago_s=310)
    running = ada.mon(EACH_ALONE)
    pids = [pid for pid, _ in ada.box.miners(2)]
    ada.was_here(ago_s=0)
    assert "ada was at pts/" in running.until("giving it back")
    wait_for_end(pids)


@pytest.mark.parametrize(
    ("user", "text"), [("user2", ALL_TOGETHER), ("ada", ALL_TOGETHER.replace("enabled=True", "enabled=False"))]
)
@pytest.mark.more
def test_users_in_the_whitelist_do_not_count_and_nobody_does_without_tty_monitoring(
    person: Callable[[str], Person], user: str, text: str
) -> None:
    somebody = person(user)
    somebody.was_here(ago_s=0)
    running = somebody.mon(text)
    somebody.box.miners(1)
    running.until("filling it")
    assert not running.told("left alone")
