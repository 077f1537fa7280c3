"""What is remembered of the processes on GPUs, which their users choose."""

import subprocess
import tracemalloc

from fallow.core.gpu import Snapshot
from fallow.engine.idle_rules.gpu_jobs import JobFinder
from fallow.engine.machine.world import World
from fallow.engine.owners.known import KnownOwners
from tests.conftest import Fallow
from tests.core.gpus import held

MEGABYTE = {f"FALLOW_{number}": "x" * 100_000 for number in range(10)}


def test_of_megabytes_of_variables_only_what_counts_is_remembered(fallow: Fallow) -> None:
    """Each process cost the daemon all of its variables for fallow, up to 6 MiB, as long as it lived."""
    world = World(fallow.environ, simulate="1xH100")
    variables = {"PATH": "/usr/bin:/bin", **MEGABYTE, "FALLOW_CLAIM": "y" * 100_000, "FALLOW_PROTECT": "1"}
    words = ["sh", "-c", "echo up; read line"]  # once it has said so, its variables are there to be read
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=variables, stdin=pipe, stdout=pipe, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            snapshot = Snapshot("host", simulated=True, at_s=0.0, wall_s=0.0, gpus=(held(pid=process.pid),))
            JobFinder(world, KnownOwners(world, print)).jobs(snapshot)  # what is loaded at the first look stays
            finder = JobFinder(world, KnownOwners(world, print))
            tracemalloc.start()
            (job,) = finder.jobs(snapshot)
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            process.kill()
    assert job.opt_out is not None, "it is told to be left alone"
    assert kept < 500_000
    world.close()
