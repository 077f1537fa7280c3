"""Connect to a Kubernetes cluster; a program that the kubeconfig names to get a token is run with limits."""

import os
from collections.abc import Mapping, Sequence

from fallow.actuators.process import programs
from fallow.core.ports import Clock
from fallow.core.unknown import Unknown
from fallow.readers.kubernetes.connection import KubeConnection


def connection(clock: Clock, kubeconfig: str) -> KubeConnection:
    """Return the connection to the cluster of a kubeconfig, or to the one that kubectl would find."""
    return KubeConnection(clock, run_plugin, kubeconfig)


def run_plugin(command: Sequence[str], variables: Mapping[str, str], limit_s: float) -> bytes | Unknown:
    """Run the program of a kubeconfig; Unknown if it fails or takes too long."""
    answer = programs.ask(command, {**os.environ, **variables}, limit_s)
    if isinstance(answer, Unknown):
        return answer
    return answer.output if answer.ok else Unknown(f"{command[0]} failed: {answer.failure}")
