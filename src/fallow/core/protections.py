"""Protections: a person's "leave this alone until…", and what one covers.

A protection ends by itself, by system time, because that is what its owner meant. If in doubt, it covers: it may be
unknown whose process it is, and unknown is never a reason to go ahead.
"""

from collections.abc import Iterable, Mapping
from math import inf
from typing import assert_never

from fallow.core.errors import WrongUsage
from fallow.core.units import duration_for_people, is_number, printable
from fallow.core.unknown import Unknown
from fallow.core.value import value

_LONGEST_WHY = 200
_LONGEST_NAME = 200


@value
class Everything:
    """The whole machine."""

    def __str__(self) -> str:
        return "all"


@value
class OneGpu:
    """A GPU, by its UUID."""

    uuid: str

    def __str__(self) -> str:
        return f"gpu:{self.uuid}"


@value
class OneProcess:
    """A process: its pid and its birth, because pids are used again."""

    pid: int
    birth: int

    def __str__(self) -> str:
        return f"pid:{self.pid}@{self.birth}"


@value
class OneUser:
    """All that a user runs."""

    name: str

    def __str__(self) -> str:
        return f"user:{self.name}"


@value
class OneClusterJob:
    """A job of a cluster, by the key that its engine's jobs have: `slurm:1234`, `kubernetes:Deployment/NS/NAME`."""

    key: str

    def __str__(self) -> str:
        return self.key


@value
class ClusterPart:
    """All jobs of a part of a cluster: of a partition, an account, a namespace, a node, or with one pod."""

    kind: str
    """One of CLUSTER_PARTS."""
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


CLUSTER_ENGINES = ("slurm", "kubernetes")
CLUSTER_PARTS = ("partition", "account", "qos", "namespace", "node", "pod")
Target = Everything | OneGpu | OneProcess | OneUser | OneClusterJob | ClusterPart


@value
class Protection:
    """A person's wish to leave the target alone until then."""

    id: int
    target: Target
    until_wall_s: float
    why: str
    by_user: str

    def __str__(self) -> str:
        return self.in_words({})

    def in_words(self, labels: Mapping[str, str]) -> str:
        """Return who protects what and why; `labels` are those of the GPUs by UUID, as far as they are known."""
        target = self.target
        named = str(target)
        if isinstance(target, OneGpu) and target.uuid in labels:
            named = f"GPU {labels[target.uuid]}"
        elif isinstance(target, OneProcess):
            named = f"pid {target.pid}"
        reason = f": {self.why}" if self.why else ""
        return printable(f"{self.by_user} protects {named} (protection {self.id}){reason}")


@value
class ProtectedForGood:
    """What `[protect]` of a config names."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    notebooks: tuple[str, ...] = ()


@value
class AffectedProcess:
    """A process that an action would affect."""

    pid: int
    birth: int | Unknown
    user: str | Unknown
    command: str | Unknown


@value
class Affected:
    """All that an action would affect. For a MIG instance also its card: a protection of the card covers it."""

    gpus: frozenset[str] = frozenset()
    processes: tuple[AffectedProcess, ...] = ()
    machine: bool = False
    """True for the machine as a whole, with everything on it."""
    labels: tuple[tuple[str, str], ...] = ()
    """What people call the GPUs: each UUID with its label, as far as they are known."""


def with_its_end(protection: Protection, wall_s: float, labels: Mapping[str, str]) -> str:
    """Return who protects what and why, and for how long; `labels` are those of the GPUs by UUID."""
    left_s = protection.until_wall_s - wall_s
    end = "until it is released" if left_s == inf else f"for another {duration_for_people(round(left_s))}"
    return f"{protection.in_words(labels)}; {end}"


def parse_target(text: str) -> Target:
    """Parse a target: `all`, `gpu:UUID`, `pid:PID@BIRTH`, `user:NAME`, or one of a cluster, as `slurm:1234`.

    Any user may have written it.
    """
    if len(text) > _LONGEST_NAME or not text.isprintable():
        raise WrongUsage(f"{printable(text[:_LONGEST_NAME])!r} names nothing that can be protected")
    kind, _, rest = text.partition(":")
    pid, _, birth = rest.partition("@")
    if text == "all":
        return Everything()
    if kind == "gpu" and rest:
        return OneGpu(rest)
    if kind == "user" and rest:
        return OneUser(rest)
    if kind in CLUSTER_ENGINES and rest:
        return OneClusterJob(text)
    if kind in CLUSTER_PARTS and rest:
        return ClusterPart(kind, rest)
    if kind == "pid" and is_number(pid) and is_number(birth):
        return OneProcess(int(pid), int(birth))
    raise WrongUsage(f"{text!r} cannot be protected; write all, gpu:UUID, pid:PID@BIRTH or user:NAME")


def reason_of(text: str) -> str:
    """Return a reason that a person wrote, as one line of limited length."""
    line = printable(text)
    return line if len(line) <= _LONGEST_WHY else f"{line[: _LONGEST_WHY - 1]}…"


def covers(protection: Protection, touched: Affected) -> bool:
    """Return whether an action on this would break the protection, if it is in force."""
    if touched.machine:
        return True  # turning the machine off affects everything on it
    match protection.target:
        case Everything():
            return True
        case OneGpu(uuid):
            return uuid in touched.gpus
        case OneProcess(pid, birth):
            return any(process.pid == pid and _may_be(process.birth, birth) for process in touched.processes)
        case OneUser(name):
            return any(_may_be(process.user, name) for process in touched.processes)
        case OneClusterJob() | ClusterPart():
            return False  # policies/cluster_gate.py compares them with the jobs of the cluster
    assert_never(protection.target)


def covering(protections: Iterable[Protection], touched: Affected, wall_s: float) -> list[Protection]:
    """Return the protections that cover this now."""
    return [
        protection for protection in protections if not is_over(protection, wall_s) and covers(protection, touched)
    ]


def is_over(protection: Protection, wall_s: float) -> bool:
    """Return whether the protection has ended."""
    return wall_s >= protection.until_wall_s


def protection_on(touched: Affected, protections: Iterable[Protection], wall_s: float) -> Protection | None:
    """Return the protection that lasts longest among those that cover this now, or None."""
    return max(covering(protections, touched, wall_s), key=lambda protection: protection.until_wall_s, default=None)


def _may_be(fact: str | int | Unknown, named: str | int) -> bool:
    return isinstance(fact, Unknown) or fact == named
