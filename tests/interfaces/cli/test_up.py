"""`fallow up` on simulated GPUs and on the stand-in driver, as a person or systemd starts it."""

import os
import pathlib
import signal
import socket
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill, pids_written, wait_for_end, wait_for_lines
from tests.places import LIMIT_S, ME, OFTEN
from tests.standin import World

StartUp = Callable[..., Fill]


@pytest.fixture
def config(tmp_path: pathlib.Path) -> Callable[[str], str]:
    """Write a config in which people at terminals do not count; its path."""

    def write(text: str) -> str:
        file = tmp_path / "fallow.toml"
        file.write_text(f"[terminals]\nusers = 'ignore'\n{text}{'' if '[machine]' in text else OFTEN}")
        file.chmod(0o600)
        return str(file)

    return write


@pytest.fixture
def up(simulated: Fallow) -> StartUp:
    """Start `fallow up`."""
    return lambda *words, **variables: Fill(simulated.start("up", *words, **variables))


def filler(name: str, script: str, more: str = "") -> str:
    command = f"command = ['sh', '-c', '''{script}''']"
    return f"[[filler]]\nname = '{name}'\n{command}\nidle_for = 0\ngpus = 0\nuser = '{ME}'\n{more}\n"


def test_without_a_config_it_only_watches(up: StartUp) -> None:
    running = up(FALLOW_CONFIG="")
    assert "up, without a config: it only watches, on simulated GPUs (4xH100)" in running.until("up, ")


def test_the_first_gets_the_card_and_the_second_only_what_is_left(
    up: StartUp, config: Callable[[str], str], tmp_path: pathlib.Path
) -> None:
    facts = tmp_path / "facts"
    first = filler("first", f"echo first >> {facts}; exec sleep 1000", "priority = 1")
    second = filler("second", f"echo second $EXTRA >> {facts}; exec sleep 1000", "env = { EXTRA = 'given' }")
    running = up("--config", config(second.replace("gpus = 0", "gpus = '0-1'") + first))
    running.until("filling it", times=2)
    assert sorted(wait_for_lines(facts, 2)) == ["first", "second given"]
    assert not running.told("second: GPU 0: filling it")


@pytest.mark.more
def test_a_second_one_says_who_runs_and_leaves(simulated: Fallow, config: Callable[[str], str], up: StartUp) -> None:
    file = config("")
    running = up("--config", file)
    running.until("up, with")
    second = simulated("up", "--config", file)
    assert second.returncode == 75
    assert f"fallow up runs already: pid {running.process.pid} of " in second.stderr
    assert second.stderr.rstrip().endswith(f", with {file}")
    running.process.kill()
    running.process.wait(LIMIT_S)
    up("--config", file).until("up, with")  # a kill leaves nothing that blocks the next


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_filler_outlives_it_however_it_ends(
    up: StartUp, config: Callable[[str], str], tmp_path: pathlib.Path, number: signal.Signals
) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 1000 & echo $! >> {pids}; (setsid sleep 1000 & echo $! >> {pids}); echo $$ >> {pids}; wait"
    running = up("--config", config(filler("work", script)))
    wait_for_lines(pids, 3)
    os.kill(running.process.pid, number)
    wait_for_end(pids_written(pids))
    assert running.process.wait(LIMIT_S) == -number


def test_a_hang_up_loads_the_config_anew_and_a_wrong_one_changes_nothing(
    up: StartUp, config: Callable[[str], str], tmp_path: pathlib.Path
) -> None:
    pids = tmp_path / "pids"
    script = f"echo $$ >> {pids}; exec sleep 1000"
    running = up("--config", config(filler("work", script)))
    wait_for_lines(pids, 1)
    config("[machine]\nevry = 1\n[page]\nlisten = 'x'")
    running.process.send_signal(signal.SIGHUP)
    running.until("the old one stays in force")
    running.until("machine.evry: there is no such key in [machine] (did you mean every?)")
    running.until("page.listen")
    config(filler("work", script, "grace = '3s'"))
    running.process.send_signal(signal.SIGHUP)
    running.until("config reloaded")
    assert len(pids_written(pids)) == 1, "other rules, the same process"
    config("")
    running.process.send_signal(signal.SIGHUP)
    running.until("work: GPU 0: giving it back: the config has changed")
    wait_for_end(pids_written(pids))


def test_a_dry_run_does_nothing_and_says_what_it_would(
    up: StartUp, config: Callable[[str], str], tmp_path: pathlib.Path
) -> None:
    facts = tmp_path / "facts"
    running = up("--dry-run", "--config", config(filler("work", f"echo x >> {facts}")))
    running.until("work: GPU 0: filling it")
    running.process.terminate()
    running.process.communicate(timeout=LIMIT_S)
    assert not facts.exists()


@pytest.mark.more
def test_a_guard_of_the_config_acts_while_fillers_go_on(
    up: StartUp, simulated: Fallow, config: Callable[[str], str], tmp_path: pathlib.Path
) -> None:
    """Its deed takes for ever; nobody waits for it."""
    facts = tmp_path / "facts"
    guard = (
        f"[[guard]]\nname = 'evening'\nuser = '{ME}'\narm_for = '1s'\nidle_for = '1s'\ncountdown = 0\ngpus = 1\n"
        f"action = '''run:echo $$ > {facts}.pid; echo $FALLOW_BECAUSE >> {facts}; exec sleep 1000'''\n"
        "[machine]\nevery = '0.5s'\n"
    )
    running = up("--config", config(guard + filler("work", "exec sleep 1000")))
    work = simulated.start_other("sh", "-c", "while :; do :; done", CUDA_VISIBLE_DEVICES="1")
    running.until("evening: armed")
    work.kill()
    assert "quiet for" in wait_for_lines(facts, 1)[0]
    simulated.start_other("sleep", "1000", CUDA_VISIBLE_DEVICES="0")
    running.until("work: GPU 0: given back after")
    os.kill(int(pathlib.Path(f"{facts}.pid").read_text()), signal.SIGKILL)  # it outlives the daemon


def test_what_the_machine_cannot_do_is_told_at_the_start(simulated: Fallow, config: Callable[[str], str]) -> None:
    broken = "[[filler]]\nname = '{0}'\ncommand = 'no-such-{0}'\nuser = '" + ME + "'\n"
    done = simulated("up", "--config", config(broken.format("a") + broken.format("b")))
    assert done.returncode == 78
    assert "there is no command 'no-such-a'" in done.stderr
    assert "there is no command 'no-such-b'" in done.stderr


def test_without_a_driver_it_says_so_and_leaves(fallow: Fallow, world: World) -> None:
    world.fault("nvmlInit", error=9)
    done = fallow("up")
    assert (done.returncode, "the NVIDIA driver is not loaded" in done.stderr) == (69, True)


def test_a_port_that_somebody_has_is_an_error_and_a_reload_opens_the_page_when_it_is_free(
    up: StartUp, config: Callable[[str], str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        running = up("--config", config(f"[page]\nlisten = '{address}'\n"))
        assert "give no token" in running.until("another program listens on")
        running.until("up, ")
    running.process.send_signal(signal.SIGHUP)
    running.until(f"the page is at http://{address}/")


class Manager:
    """systemd, as far as it listens."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening

    def hear(self, word: str) -> dict[str, str]:
        """The next message with this word in it."""
        while word not in (said := self.hear_anything()):
            pass
        return said

    def hear_anything(self) -> dict[str, str]:
        """The next message."""
        return dict(line.split("=", 1) for line in self._listening.recv(4096).decode().splitlines())


@pytest.fixture
def manager(fallow: Fallow) -> Iterator[Manager]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(LIMIT_S)
        address = f"@fallow-up-test-{os.getpid()}"
        listening.bind(f"\0{address[1:]}")
        fallow.environ["NOTIFY_SOCKET"] = address
        yield Manager(listening)


def test_it_tells_systemd_when_it_is_ready_reloads_lives_and_ends(
    up: StartUp, manager: Manager, config: Callable[[str], str]
) -> None:
    running = up("--config", config(""), WATCHDOG_USEC="400000")
    assert manager.hear("READY")["STATUS"] == "4 GPUs: 4 available (4 free); 0 fillers at work"
    manager.hear("WATCHDOG")
    manager.hear("WATCHDOG")
    running.process.send_signal(signal.SIGHUP)
    assert int(manager.hear("RELOADING")["MONOTONIC_USEC"]) > 0
    manager.hear("READY")
    running.process.terminate()
    manager.hear("STOPPING")
    assert running.process.wait(LIMIT_S) == -signal.SIGTERM
