"""Commands in the documents for a cluster are run on a real Slurm with a real Prometheus, and on its nodes."""

import pathlib
import re
import shlex
from collections.abc import Iterator

import pytest

from tests.house.commands import blocks_run_by, calls
from tests.house.stage import Stage, terminal
from tests.places import BIN
from tests.real_prometheus import Exporter, Prometheus, profiled_gpu
from tests.real_slurm import Slurm
from tests.waiting import PROGRAM_S, until

BLOCKS = blocks_run_by(__file__)
CLUSTER = """
[cluster]
engine = "slurm"
prometheus = "{prometheus}"
metrics = "dcgm"
scrape_interval = "3s"
every = "1s"

[[cluster.idle]]
name = "idle-gpus"
idle_for = "1h"
"""

pytestmark = [pytest.mark.engine, pytest.mark.more]


def lines_of(page: str) -> list[str]:
    """Return the lines of a page, each once."""
    found = (line.partition(" # ")[0].strip() for block in BLOCKS if block.page.name == page for line in block.lines)
    return list(dict.fromkeys(found))


@pytest.fixture
def stage(slurm: Slurm, tmp_path: pathlib.Path) -> Iterator[Stage]:
    """A machine whose daemon may be told of the cluster, and whose commands find it."""
    made = Stage(tmp_path / "stage", with_daemon=False)
    made.fallow.environ |= {"SLURM_CONF": slurm.environ["SLURM_CONF"]}
    made.fallow.environ["PATH"] += ":/usr/sbin:/sbin"
    yield made
    made.close()


@pytest.fixture
def prometheus(tmp_path: pathlib.Path) -> Iterator[Prometheus]:
    """All GPUs of both nodes idle."""
    exporter = Exporter("".join(profiled_gpu(node, index, 0) for node in ("n1", "n2") for index in range(4)))
    made = Prometheus(tmp_path / "prometheus", {"dcgm": [exporter.address]})
    made.scrapes("dcgm", 3)
    yield made
    made.close()
    exporter.close()


def test_every_command_for_a_cluster_runs(slurm: Slurm, prometheus: Prometheus, stage: Stage) -> None:
    job = slurm.running("--gres=gpu:2", "--nodelist=n1", "--account=vision")
    config = stage.fallow.home / "fallow.toml"
    config.write_text(CLUSTER.format(prometheus=prometheus.url))
    stage.fallow.start("up", "--config", str(config), "--listen", "127.0.0.1:0")
    shown = f"slurm:{job}"
    until(lambda: stage.fallow("status", "--cluster").stdout, lambda said: shown in said, pause_s=PROGRAM_S)
    lines = [*lines_of("README.md"), *lines_of("cluster.md")]
    assert {call[0] for line in lines for call in calls(line)} == {"status", "why", "protect", "stop", "report"}
    for line in lines:
        here = re.sub(r"slurm:\d+", shown, line)
        if line.startswith("fallow stop"):
            stage.unprotect()
            with terminal(stage, here) as person:
                person.types("y\n")
                assert person.ends() == 0, person.seen
        else:
            done = stage.bash(here)
            assert done.returncode == 0, f"{line}\n{done.stderr}"
    until(lambda: slurm.state(job), lambda state: state != "RUNNING", pause_s=0.1)


def test_a_step_and_a_script_of_slurm_end_with_what_fallow_says(slurm: Slurm, stage: Stage) -> None:
    """A recipe: `fallow run` in a job, with a training that idles, and times of seconds."""
    step, script, tells = lines_of("recipes-for.md")
    programs = pathlib.Path(stage.fallow.environ["PATH"].partition(":")[0])
    for name in ("python", "torchrun"):
        (programs / name).write_text("#!/bin/sh\nexec sleep 100000\n")
    (programs / "mail").write_text(f'#!/bin/sh\n{{ echo "$@"; cat; }} >> {stage.folder}/mail\n')
    (programs / "mail").chmod(0o755)
    quick = "--warmup 1s --idle-timeout 2s"
    step, script = (line.replace("--idle-timeout 30m", quick) for line in (step, script))
    ended = stage.bash(f"cd / && {step}")
    assert ended.returncode == 124, ended.stderr
    assert "stopping the job: idle" in ended.stderr
    batch = stage.folder / "job.sh"
    batch.write_text(f"#!/bin/sh\n{script}\n{tells}\n")
    options = ("--gres=gpu:2", "--chdir=/", f"--output={stage.folder}/output", "--wait")
    done = stage.bash(shlex.join(["sbatch", *options, str(batch)]))
    assert done.returncode == 0, done.stderr
    assert "-s stopped" in (stage.folder / "mail").read_text()
    assert "it was idle: see " in (stage.folder / "mail").read_text()


def test_the_scripts_for_slurms_nodes_are_run_by_slurmd(open_folder: pathlib.Path) -> None:
    epilog, health = lines_of("slurm-nodes.md")
    environ = f"""export FALLOW_SIMULATE=8xH100 FALLOW_STATE_DIR={open_folder}/state
export FALLOW_CLAIM_DIR={open_folder}/claims-$SLURMD_NODENAME
"""
    parts = {"epilog": epilog, "prolog": epilog.replace("epilog", "prolog"), "health": health}
    for name, line in parts.items():
        here = line.replace("/usr/local/bin/fallow", str(BIN / "fallow"))
        here = here.replace("/var/log/fallow-slurm.log", f"{open_folder}/{name}.log")
        (open_folder / name).write_text(f"#!/bin/sh\n{environ}echo ran >> {open_folder}/{name}.log\n{here}\n")
        (open_folder / name).chmod(0o755)
    more = f"""PrologFlags=Alloc
Prolog={open_folder}/prolog
Epilog={open_folder}/epilog
HealthCheckProgram={open_folder}/health
HealthCheckInterval=1
HealthCheckNodeState=ANY,CYCLE
"""
    slurm = Slurm(more)
    try:
        until((open_folder / "health.log").exists, pause_s=0.1)
        done = slurm("srun", "--gres=gpu:1", "--chdir=/", "true")
        assert done.returncode == 0, done.stderr
        for name in ("prolog", "epilog"):
            until(lambda at=open_folder / f"{name}.log": at.exists(), pause_s=0.1)  # type: ignore[misc]
        states = ("sinfo", "--noheader", "--format=%T")
        until(lambda: set(slurm.said(*states).split()), lambda found: found == {"idle"}, pause_s=0.2)
    finally:
        slurm.close()
