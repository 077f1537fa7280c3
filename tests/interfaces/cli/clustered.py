"""A daemon that shows a cluster, as a process, and fallow beside it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.conftest import Fallow
from tests.interfaces.socket.conftest import starting
from tests.places import LIMIT_S


@contextmanager
def watching(fallow: Fallow, cluster: str) -> Iterator[None]:
    """Run a small daemon that shows this cluster of tests/interfaces/web/clusters.py."""
    with starting() as start:
        start({**fallow.environ, "CLUSTER_OF_TEST": cluster})
        fallow.environ["FALLOW_DAEMON_TIMEOUT"] = f"{LIMIT_S}s"  # there is one, however long it takes to answer
        yield


@contextmanager
def watching_alone(folders: pytest.TempPathFactory) -> Iterator[Fallow]:
    """Run one for a whole module of tests that only ask: to start a daemon takes more than all their questions."""
    fallow = Fallow(folders.mktemp("shown"))
    fallow.environ["FALLOW_SIMULATE"] = "4xH100"
    with watching(fallow, "small"):
        yield fallow
