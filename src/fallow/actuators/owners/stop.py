"""The only file that tells owners to stop what they run.

Each call is sent once and says in its outcome what was asked and what was answered. A job that its owner has stopped
is not started again; one that got a signal is.
"""

import math
import os
from collections.abc import Mapping, Sequence

from fallow.actuators.process import programs
from fallow.core.account import Account
from fallow.core.errors import FallowError
from fallow.core.findings import Outcome
from fallow.core.http import Endpoint, Http, HttpAnswer
from fallow.core.units import duration_for_people, printable
from fallow.core.unknown import Unknown

_ANSWERS_WITHIN_S = 10.0
_LONGEST_WORDS = 200


def stop_kernel(http: Http, server: Endpoint, base: str, headers: Mapping[str, str], kernel: str) -> Outcome:
    """Have a Jupyter server shut a kernel down; it then does not restart it."""
    answer = http(server, "DELETE", f"{base}api/kernels/{kernel}", headers, _ANSWERS_WITHIN_S)
    return _outcome(
        answer,
        {204: "its Jupyter server shut the kernel down", 404: "its Jupyter server has ended it before"},
        server,
    )


def stop_container(http: Http, engine: Endpoint, api: str, container: str, grace_s: float) -> Outcome:
    """Have an engine stop a container: its stop signal, and SIGKILL after the grace. It is then not restarted."""
    seconds = math.ceil(grace_s)
    target = f"{api}/containers/{container}/stop?t={seconds}"
    answer = http(engine, "POST", target, {}, seconds + _ANSWERS_WITHIN_S)
    words = f"its engine stopped the container, with {duration_for_people(seconds)} to end by itself"
    return _outcome(
        answer, {204: words, 304: "its container had stopped before", 404: "its container is gone"}, engine
    )


def stop_unit(environ: Mapping[str, str], unit: str, user: Account | None) -> Outcome:
    """Have systemd stop a unit of the machine, or of a user; Restart= does not bring it back."""
    return _systemctl(environ, ("stop", "--no-block", "--", unit), user, f"systemd was told to stop {unit}")


def kill_unit(environ: Mapping[str, str], unit: str, user: Account | None) -> Outcome:
    """Have systemd kill what is left of a unit that it stops."""
    return _systemctl(environ, ("kill", "--signal=KILL", "--", unit), user, f"systemd was told to kill {unit}")


def _outcome(answer: HttpAnswer | Unknown, good: Mapping[int, str], of: Endpoint) -> Outcome:
    if isinstance(answer, Unknown):
        return Outcome(False, answer.why)
    if answer.status in good:
        return Outcome(True, good[answer.status])
    if of.named_by is not None:  # everybody reads it, and what a user's own server says is not for all
        return Outcome(False, f"its owner answered {answer.status}")
    said = printable(answer.body.decode(errors="replace"))[:_LONGEST_WORDS]
    return Outcome(False, f"its owner answered {answer.status}: {said}")


def _systemctl(environ: Mapping[str, str], words: Sequence[str], user: Account | None, done: str) -> Outcome:
    command = ["systemctl", "--no-ask-password", *words]
    if user is not None:
        command[1:1] = ["--user"] if user.uid == os.geteuid() else ["--user", f"--machine={user.name}@.host"]
    try:
        ran = programs.run(command, environ, _ANSWERS_WITHIN_S)
    except FallowError as error:
        return Outcome(False, f"systemctl cannot be run: {error}")
    if ran.ok:
        return Outcome(True, done)
    return Outcome(False, f"{' '.join(command)} failed: {ran.failure[:_LONGEST_WORDS]}")
