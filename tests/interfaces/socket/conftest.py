"""A small daemon with a desk, as a process."""

import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from tests.conftest import Fallow
from tests.places import LIMIT_S, REPOSITORY
from tests.waiting import end

Start = Callable[[Mapping[str, str]], subprocess.Popen[str]]


@contextmanager
def starting() -> Iterator[Start]:
    """Starts small daemons; whoever still lives at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(environ: Mapping[str, str]) -> subprocess.Popen[str]:
        daemon = subprocess.Popen(
            [sys.executable, "-m", "tests.interfaces.socket.small_daemon"],
            cwd=REPOSITORY,
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(daemon)
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == "ready\n", daemon.stderr and daemon.stderr.read()
        return daemon

    try:
        yield start
    finally:
        for daemon in started:
            end(daemon)


@pytest.fixture
def start_daemon() -> Iterator[Start]:
    """Starts daemons for one test."""
    with starting() as start:
        yield start


@pytest.fixture
def daemon(simulated: Fallow, start_daemon: Start, tmp_path: pathlib.Path) -> subprocess.Popen[str]:
    """A daemon on the simulated GPUs, with a state folder of its own."""
    (tmp_path / "daemon").mkdir()
    simulated.environ["FALLOW_DAEMON_TIMEOUT"] = f"{LIMIT_S}s"  # there is one, however long it takes to answer
    return start_daemon({**simulated.environ, "FALLOW_STATE_DIR": str(tmp_path / "daemon")})
