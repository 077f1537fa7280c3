"""A daemon that shows a cluster, as a process, and fallow beside it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.conftest import Fallow
from tests.places import LIMIT_S, REPOSITORY


@contextmanager
def watching(fallow: Fallow, cluster: str) -> Iterator[None]:
    """Run a small daemon that shows this cluster of tests/interfaces/web/clusters.py."""
    daemon = subprocess.Popen(
        [sys.executable, "-m", "tests.interfaces.socket.small_daemon"],
        cwd=REPOSITORY,
        env={**fallow.environ, "CLUSTER_OF_TEST": cluster},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert daemon.stdin is not None
    assert daemon.stdout is not None
    try:
        assert daemon.stdout.readline() == "ready\n"
        fallow.environ["FALLOW_DAEMON_TIMEOUT"] = f"{LIMIT_S}s"  # there is one, however long it takes to answer
        yield
    finally:
        with daemon:
            daemon.stdin.close()
            try:
                daemon.wait(LIMIT_S)
            finally:
                daemon.kill()


@contextmanager
def watching_alone(folders: pytest.TempPathFactory) -> Iterator[Fallow]:
    """Run one for a whole module of tests that only ask: to start a daemon takes more than all their questions."""
    fallow = Fallow(folders.mktemp("shown"))
    fallow.environ["FALLOW_SIMULATE"] = "4xH100"
    with watching(fallow, "small"):
        yield fallow
