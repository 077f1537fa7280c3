"""Connect to a Kubernetes cluster; a program that the kubeconfig names to get a token is run with limits."""

import os
from collections.abc import Mapping, Sequence

from fallow.actuators.process.queries import Queries
from fallow.core.ports import Clock
from fallow.core.unknown import Unknown
from fallow.readers.kubernetes.connection import KubeConnection, RunPlugin

_MOST_BYTES = 1 << 20


def connection(clock: Clock, kubeconfig: str) -> KubeConnection:
    """Return the connection to the cluster of a kubeconfig, or to the one that kubectl would find."""
    return KubeConnection(clock, plugin_runner(clock), kubeconfig)


def plugin_runner(clock: Clock) -> RunPlugin:
    """Return a function that runs the program of a kubeconfig, and ends it if it takes too long."""
    queries = Queries(clock.monotonic_s)

    def run(command: Sequence[str], variables: Mapping[str, str], limit_s: float) -> bytes | Unknown:
        answer = queries.ask(command, {**os.environ, **variables}, limit_s, _MOST_BYTES)
        if isinstance(answer, Unknown):
            return answer
        return answer.output if answer.ok else Unknown(f"{command[0]} failed: {answer.last_line}")

    return run
