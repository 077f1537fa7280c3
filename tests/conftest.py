"""What all tests share: the stand-in driver, a private claim folder, and fallow as a user runs it."""

import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests import length
from tests.places import BIN, LIMIT_S, QUICK, REPOSITORY
from tests.ports import with_a_free_port
from tests.standin import CUDA_SONAME, SONAME, World, build
from tests.waiting import end_group

if TYPE_CHECKING:
    from tests.harness import Machine
    from tests.interfaces.cli.filled import Fill
    from tests.real_owners import Jupyter, Podman
    from tests.real_slurm import Slurm

_PR_SET_CHILD_SUBREAPER = 36
sys.path.insert(0, QUICK)
# How long an example takes depends on what else the machine does, so it has no deadline. The same examples are drawn
# each time, so no test fails because another example was drawn.
settings.register_profile(
    "anywhere",
    max_examples=length.examples(100),
    deadline=None,
    derandomize=not length.MORE,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("anywhere")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give each run a folder of its own: each run closes the usual one, which all runs of a user share, to others."""
    if config.option.basetemp is None:
        folder = tempfile.mkdtemp(prefix="fallow-tests-")
        pathlib.Path(folder).chmod(0o755)
        config.option.basetemp = f"{folder}/of"


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remove that folder, unless somebody will want to look into it."""
    folder = pathlib.Path(session.config.option.basetemp).parent
    if exitstatus == 0 and folder.name.startswith("fallow-tests-"):
        shutil.rmtree(folder, ignore_errors=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    _hear_every_signal()
    _adopt_nobody()
    if item.get_closest_marker("as_root") and os.geteuid() != 0:
        pytest.skip("not root")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where FALLOW_TEST_ALL is set, a test that cannot run fails."""
    report = yield
    if report.skipped and os.environ.get("FALLOW_TEST_ALL"):
        report.outcome, report.longrepr = "failed", f"it did not run: {reason_of(report)}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line what did not run, and why."""
    reasons = Counter(reason_of(report) for report in terminalreporter.stats.get("skipped", []))
    if reasons:
        why = "; ".join(f"{count} ({reason})" for reason, count in reasons.most_common())
        terminalreporter.write_line(f"Not run on this machine: {why}")


def reason_of(report: pytest.TestReport) -> str:
    """Return why a test was skipped."""
    reason = report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else "unknown"
    return " ".join(reason.split())


def _hear_every_signal() -> None:
    """Let what tests start have the usual signals, also if whoever started us ignores some, as nohup and scripts do.

    A program inherits what is ignored, but not what is handled. We ourselves go on as if it was ignored.
    """
    pythons_own = {signal.SIGPIPE, signal.SIGXFSZ}
    for number in signal.valid_signals() - pythons_own:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def _adopt_nobody() -> None:
    """Let orphans have another parent, also after a test of what fallow does as the parent of a job."""
    assert ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0


@pytest.fixture(autouse=True)
def _leaves_the_environment() -> Iterator[None]:
    """No test leaves the next one a variable."""
    before = dict(os.environ)
    yield
    names = before.keys() | os.environ.keys()
    assert {name for name in names if before.get(name) != os.environ.get(name)} <= {"PYTEST_CURRENT_TEST"}


def _end_driver() -> None:
    """End the stand-in driver of this process, as the end of a process does: the next may have another world."""
    while _loaded and _loaded[0].nvmlShutdown() == 0:
        pass


_loaded: list[ctypes.CDLL] = []
_ONLY_ASKS = frozenset({"status", "pick", "why", "idle", "report", "check", "protect", "stop", "doctor"})


class Fallow:
    """fallow as a user starts it, in an environment of its own."""

    def __init__(self, home: pathlib.Path) -> None:
        self.home = home
        (home / "terminals" / "pts").mkdir(parents=True, exist_ok=True)  # nobody is here, whoever runs the tests
        self.environ = {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "FALLOW_CLAIM_DIR": str(home / "claims"),
            "FALLOW_STATE_DIR": str(home / "state"),
            "FALLOW_SOCKET": str(home / "run" / "fallow.sock"),
            "FALLOW_TERMINALS": str(home / "terminals"),
            "FALLOW_DAEMON_TIMEOUT": "20s",  # a daemon on a loaded machine answers later than the usual 2 s
        }
        self._started: list[subprocess.Popen[str]] = []

    @property
    def state(self) -> pathlib.Path:
        """Where its journal and its history are: those of simulated GPUs are kept apart."""
        folder = pathlib.Path(self.environ["FALLOW_STATE_DIR"])
        return folder / "simulated" if "FALLOW_SIMULATE" in self.environ else folder

    def on(self, gpu: str) -> dict[str, str]:
        """The environment of somebody on one of the simulated GPUs, who came without fallow."""
        return {**self.environ, "CUDA_VISIBLE_DEVICES": gpu}

    def __call__(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end: in this process, if it only asks, and the GPUs that it asks are ours."""
        from tests.harness import cli

        environ = {**self.environ, **variables}
        ours = "FALLOW_SIMULATE" in environ or (_loaded and "FALLOW_STANDIN_WORLD" in environ)
        if ours and _ONLY_ASKS.intersection(words[:1]):
            _end_driver()
            done = cli(*words, environ=environ)
            _end_driver()
            return subprocess.CompletedProcess(words, *done)
        return self.process(*words, **variables)

    def process(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end, as a process of its own."""
        return subprocess.run(
            ["fallow", *with_a_free_port(*words)],
            env={**self.environ, **variables},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def start(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        """Start it; whatever still runs when the test ends is killed."""
        return self.start_other("fallow", *with_a_free_port(*words), **variables)

    def up(self, config: str, *words: str, **variables: str) -> "Fill":
        """Start the daemon with this config."""
        from tests.interfaces.cli.filled import Fill

        file = self.home / "fallow.toml"
        file.write_text(config)
        file.chmod(0o600)
        return Fill(self.start("up", "--config", str(file), *words, **variables))

    def start_other(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        """Start another program in its environment, such as one that starts fallow."""
        process = subprocess.Popen(
            list(words),
            env={**self.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def end_all(self) -> None:
        for process in self._started:
            end_group(process)  # each leads a session; what it left there goes with it


@pytest.fixture(scope="session")
def library() -> pathlib.Path:
    """The folder of the stand-in libnvidia-ml.so.1, built by this run."""
    made = build(REPOSITORY / "build" / "standin")
    _loaded.append(ctypes.CDLL(str(made / SONAME)))  # by its name, this process finds it from now on
    return made


@pytest.fixture
def fallow(tmp_path: pathlib.Path) -> Iterator[Fallow]:
    """fallow on this machine as it is."""
    made = Fallow(tmp_path)
    yield made
    made.end_all()


@pytest.fixture
def driverless(fallow: Fallow, tmp_path: pathlib.Path) -> Fallow:
    """fallow where there is no driver, also if this machine has one: what the loader finds first is no library."""
    folder = tmp_path / "no driver"
    folder.mkdir()
    for name in (SONAME, CUDA_SONAME):
        (folder / name).touch()
    fallow.environ["LD_LIBRARY_PATH"] = str(folder)
    return fallow


@pytest.fixture
def simulated(fallow: Fallow) -> Fallow:
    """fallow on 4 simulated GPUs."""
    fallow.environ["FALLOW_SIMULATE"] = "4xH100"
    return fallow


@pytest.fixture
def make_world(tmp_path: pathlib.Path, library: pathlib.Path, fallow: Fallow) -> Iterator[Callable[..., World]]:
    """Worlds that the stand-in driver shows to fallow."""
    made: list[World] = []

    def make(cards: int = 8, **what: object) -> World:
        world = World.create(tmp_path / f"world-{len(made)}", cards=cards, **what)  # type: ignore[arg-type]
        made.append(world)
        fallow.environ.update(world.environ(library))
        return world

    yield make
    for world in made:
        world.close()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """8 idle cards."""
    return make_world()


@pytest.fixture
def open_folder() -> Iterator[pathlib.Path]:
    """A folder that every user may enter, unlike those of tmp_path."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="fallow-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def jupyter(fallow: Fallow, tmp_path: pathlib.Path) -> "Iterator[Jupyter]":
    """A real Jupyter server, whose kernels see the GPUs that fallow sees."""
    from tests.real_owners import Jupyter

    server = Jupyter(tmp_path / "jupyter", fallow.environ)
    yield server
    server.close()


@pytest.fixture
def podman(fallow: Fallow) -> "Iterator[Podman]":
    """A real podman, which fallow asks about containers."""
    from tests.real_owners import Podman

    engine = Podman()
    fallow.environ["FALLOW_CONTAINER_ENGINE"] = str(engine.socket)
    yield engine
    engine.close()


@pytest.fixture
def slurm() -> "Iterator[Slurm]":
    """A real Slurm with two nodes of 4 GPUs, for one test."""
    from tests.real_slurm import Slurm

    made = Slurm()
    yield made
    made.close()


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> "Iterator[Machine]":
    """A machine with 2 scripted GPUs, whose time the test moves."""
    from tests.harness import Machine

    made = Machine(tmp_path)
    yield made
    made.close()
