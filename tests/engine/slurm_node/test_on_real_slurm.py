"""Prolog, epilog and health check in a real Slurm, whose nodes have simulated GPUs."""

import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.places import BIN
from tests.real_slurm import Slurm
from tests.waiting import until

pytestmark = pytest.mark.engine

SCRIPT = """#!/bin/sh
export FALLOW_SIMULATE=4xH100 FALLOW_CLAIM_DIR={folder}/$SLURMD_NODENAME FALLOW_STATE_DIR={folder}/state
echo "$SLURMD_NODENAME {part} $SLURM_JOB_ID gpus $SLURM_JOB_GPUS" >> {folder}/log
{program} slurm {part} --grace 2s >> {folder}/{part}.$SLURM_JOB_ID 2>&1
code=$?
echo "$SLURMD_NODENAME {part} $SLURM_JOB_ID ended with $code" >> {folder}/log
exit $code
"""


class Site:
    """A cluster whose administrator has put fallow into slurm.conf."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        folder.chmod(0o755)
        parts = {}
        for part in ("prolog", "epilog"):
            parts[part] = folder / f"fallow-{part}"
            parts[part].write_text(SCRIPT.format(folder=folder, part=part, program=BIN / "fallow"))
            parts[part].chmod(0o755)
        # With proctrack/pgid Slurm loses what begins a session of its own, as it loses what leaves its cgroup.
        self.slurm = Slurm(
            f"ProctrackType=proctrack/pgid\nPrologFlags=Alloc\nProlog={parts['prolog']}\nEpilog={parts['epilog']}"
        )

    def running(self, line: str, *options: str, gpus: int = 1) -> str:
        """Submit a job to the first node, and wait until it runs."""
        return self.slurm.running(*self._options(gpus, *options), line=line)

    def submit(self, line: str, gpus: int = 1) -> str:
        """Submit a job to the first node."""
        return self.slurm.submit(*self._options(gpus), line=line)

    def said(self, part: str, job: str) -> str:
        """Return what a part printed for a job; empty if it has not run."""
        file = self.folder / f"{part}.{job}"
        return file.read_text() if file.exists() else ""

    def reason(self, node: str) -> str:
        """Return why a node is out of service, as Slurm shows it."""
        return self.slurm.said("sinfo", "--noheader", f"--nodes={node}", "--format=%100E")

    def log(self) -> list[str]:
        """Return which part ran for which job, and how it ended."""
        file = self.folder / "log"
        return file.read_text().splitlines() if file.exists() else []

    def _options(self, gpus: int, *more: str) -> tuple[str, ...]:
        environ = f"ALL,FALLOW_SIMULATE=4xH100,FALLOW_CLAIM_DIR={self.folder}/n1"
        return (f"--export={environ}", "--nodelist=n1", f"--gres=gpu:{gpus}", *more)


@pytest.fixture
def site() -> Iterator[Site]:
    """A site; all of it is gone afterwards."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fallow-site-"))
    made: list[Site] = []
    try:
        made.append(Site(folder))
        yield made[0]
    finally:
        for each in made:
            each.slurm.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.as_root
def test_prolog_epilog_and_health_do_their_part_and_never_touch_the_users_other_job(site: Site) -> None:
    slurm, go = site.slurm, site.folder / "go"
    left, trespasser, own = (f"sleep {os.getpid()}{number}" for number in (1, 2, 3))
    first = site.running(f"setsid -f {left}; while ! test -e {go}; do sleep 0.1; done")
    # The other job of the same user has a card of its own, and a process on the card of the first one.
    other = site.running(f"CUDA_VISIBLE_DEVICES=0 {trespasser} & {own}")
    until(lambda: {left, trespasser, own} <= commands(), pause_s=0.1)
    go.touch()
    until(lambda: f"n1 epilog {first} ended with 0" in site.log(), pause_s=0.2)
    assert "ended what was left of" in site.said("epilog", first), site.log()
    assert "(sleep)" in site.said("epilog", first)
    assert slurm.state(other) == "RUNNING"
    assert {trespasser, own} <= commands()
    assert left not in commands()

    # Its card is not free as long as the other job is on it: the next prolog says so, and Slurm drains the node.
    refused = site.submit("exit 0")
    until(lambda: site.said("prolog", refused), pause_s=0.2)
    assert "GPU 0 is not free for" in site.said("prolog", refused)
    assert site.said("prolog", refused).count("\n") == 1
    until(lambda: site.reason("n1"), lambda reason: reason == "Prolog error", pause_s=0.2)
    assert slurm.state(other) == "RUNNING"
    assert {trespasser, own} <= commands()

    # Health drains the other node by itself, where that was asked for, and keeps the reason of the first.
    health = ("slurm", "health", "--simulate", "4xH100", "--count", "8", "--drain", "--node")
    for node in ("n1", "n2"):
        assert (
            slurm("env", f"FALLOW_STATE_DIR={site.folder}/state", str(BIN / "fallow"), *health, node).returncode == 1
        )
    assert site.reason("n1") == "Prolog error"
    assert site.reason("n2") == "fallow: the driver lists 4 of 8 GPUs"


def commands() -> set[str]:
    """Return the command lines of all processes, those in the namespace of a cluster too."""
    found = set()
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.add(path.read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace"))
    return found
