"""Read the nodes: `scontrol show node --details --oneliner`, one line a node. Only administrators write there."""

import re

from fallow.core.cluster import ClusterNode
from fallow.core.units import printable
from fallow.core.unknown import Unknown
from fallow.readers.slurm.lists import gpu_count

_LONGEST_REASON = 200
_NAME = re.compile(r"NodeName=(\S{1,256}) ", re.ASCII)
_GRES = re.compile(r"\sGres=(\S*)\s", re.ASCII)
_STATE = re.compile(r"\sState=(\S+)\s", re.ASCII)
_PARTITIONS = re.compile(r"\sPartitions=(\S*)\s", re.ASCII)
_REASON = re.compile(r"\sReason=(.*?)(?:\s\[[^\[\]]*\])?\s*$")
_NO_JOBS = (
    *("DOWN", "DRAIN", "FAIL", "ERROR", "NOT_RESPONDING", "REBOOT", "MAINT", "INVALID", "BLOCKED", "PERFCTRS"),
    *("POWER_DOWN", "POWER_DRAIN", "POWERING_DOWN"),
)
"""What flags begin with that keep jobs away. Slurm has others, as CLOUD and DYNAMIC_NORM, and new ones come."""
_OPEN_STATES = ("IDLE", "MIXED", "ALLOCATED", "COMPLETING", "PLANNED")


def nodes(text: str) -> tuple[ClusterNode, ...] | Unknown:
    """Return the nodes that have GPUs; Unknown if a line is no node."""
    found = []
    for line in text.splitlines():
        if not line.strip():
            continue
        name, gres, state = _NAME.match(line), _GRES.search(line), _STATE.search(line)
        count = gpu_count("" if gres is None or gres[1] == "(null)" else gres[1])
        if name is None or state is None or count is None:
            return Unknown("scontrol answered with a line that is no node")
        if count:
            partitions = _PARTITIONS.search(line)
            labels = {"partition": partitions[1]} if partitions and partitions[1] else {}
            found.append(ClusterNode(name[1], count, labels, _trouble(line, state[1])))
    return tuple(found)


def _trouble(line: str, state: str) -> str | None:
    """Return why no job begins there: `drained: fan replaced`."""
    first, *flags = state.rstrip("*~#!%$@^-+").split("+")
    silent = "*" in state
    bad = [flag for flag in (first, *flags) if flag.startswith(_NO_JOBS)]
    if not first.startswith((*_NO_JOBS, *_OPEN_STATES)):
        bad.insert(0, first)
    if not bad and not silent:
        return None
    reason = _REASON.search(line)
    what = ", ".join(bad).lower() or "does not answer"
    return printable(f"{what}: {reason[1]}" if reason else what)[:_LONGEST_REASON]
