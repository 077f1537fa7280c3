"""Parked jobs are woken by their people: by the command, by a cell of the notebook, by typing at their terminal."""

import fcntl
import grp
import os
import pathlib
import subprocess
import sys
import termios
from collections.abc import Iterator

import pytest
from jupyter_client.blocking.client import BlockingKernelClient

from tests.conftest import Fallow
from tests.engine.park.parked_jobs import CHECKPOINTED, MIB, RUNNING, on_the_card, parked, start_up
from tests.places import LIMIT_S, REPOSITORY
from tests.real_owners import Jupyter
from tests.standin import World
from tests.waiting import PROGRAM_S, end, until

ADA, EVE = 61001, 61002
HOLD = f"""
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
at = driver.cuMemAlloc({20 * MIB})[1]
driver.cuMemcpyHtoD(at, b"tensors", 7)
"""
READ = """
found = bytearray(7)
driver.cuMemcpyDtoH(found, at, 7)
"""


@pytest.fixture
def notebook(world: World, fallow: Fallow, tmp_path: pathlib.Path) -> Iterator[tuple[BlockingKernelClient, int]]:
    """A client of a real kernel of a real Jupyter server, with memory on GPU 0; and its pid."""
    server = Jupyter(tmp_path / "jupyter", fallow.environ)
    try:
        kernel, pid = server.open("train.ipynb")
        client = BlockingKernelClient(connection_file=str(server.runtime / f"kernel-{kernel}.json"))
        client.load_connection_file()
        client.start_channels()
        try:
            assert client.execute(HOLD, reply=True, timeout=LIMIT_S)["content"]["status"] == "ok"
            yield client, pid
        finally:
            client.stop_channels()
    finally:
        server.close()


@pytest.mark.engine
def test_a_cell_that_needs_the_gpu_wakes_its_notebook_if_the_gpu_is_free(
    world: World, fallow: Fallow, notebook: tuple[BlockingKernelClient, int], tmp_path: pathlib.Path
) -> None:
    client, pid = notebook
    up = start_up(fallow, tmp_path)
    up.until("was parked")
    assert world.cuda_state(pid) == CHECKPOINTED
    (job,) = until(lambda: parked(fallow), pause_s=PROGRAM_S)
    assert "notebook" in job["job"]
    used, world[0].memory_used = world[0].memory_used, world[0].memory_total - world[0].memory_reserved
    asked = client.execute(READ, user_expressions={"tensors": "found.decode()"})
    until(lambda: parked(fallow)[0]["trouble"], pause_s=PROGRAM_S)
    assert "GPU 0 has" in parked(fallow)[0]["trouble"]
    world[0].memory_used = used
    assert "its notebook runs a cell" in up.until("waking")
    reply = client._recv_reply(asked, timeout=LIMIT_S)
    assert reply["content"]["user_expressions"]["tensors"]["data"]["text/plain"] == "'tensors'"
    up.until("was woken")


@pytest.mark.more
def test_typing_at_its_terminal_wakes_a_job(world: World, fallow: Fallow, tmp_path: pathlib.Path) -> None:
    master, slave = os.openpty()

    def take_the_terminal() -> None:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    program = f"{HOLD}\nprint('there', flush=True)\nimport time\ntime.sleep(1000)"
    job = subprocess.Popen(
        [sys.executable, "-c", program],
        env=fallow.environ,
        stdin=slave,
        stdout=subprocess.PIPE,
        preexec_fn=take_the_terminal,  # noqa: PLW1509  nothing else runs in this process
        text=True,
    )
    place = fallow.home / "terminals" / os.ttyname(slave).removeprefix("/dev/")
    place.touch()
    try:
        assert job.stdout is not None
        assert job.stdout.readline() == "there\n"
        up = start_up(fallow, tmp_path)
        up.until("was parked")

        def type_and_look() -> int | None:
            os.utime(place)
            return world.cuda_state(job.pid)

        assert until(type_and_look, lambda state: state == RUNNING, pause_s=0.5) == RUNNING
        assert "was at pts/" in up.until("waking")
    finally:
        end(job)
        os.close(master)
        os.close(slave)


def as_user(uid: int | str, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-m", "tests.as_user", str(uid), *words]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), **variables}
    return subprocess.run(line, env=environ, cwd=REPOSITORY, capture_output=True, text=True, check=False)


@pytest.mark.as_root
@pytest.mark.more
def test_a_user_wakes_what_roots_daemon_has_parked_and_nobody_elses_and_an_operator_wakes_any(
    world: World, fallow: Fallow, library: pathlib.Path, open_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    group = min((each for each in grp.getgrall() if 0 < each.gr_gid < ADA), key=lambda each: each.gr_gid)
    socket = str(open_folder / "run" / "fallow.sock")
    fallow.environ["FALLOW_SOCKET"] = socket
    job = on_the_card(world, library, 20 * MIB)
    try:
        assert job(f"os.setresuid({ADA}, {ADA}, {ADA})") is None
        up = start_up(fallow, tmp_path, more=f'operators = "{group.gr_name}"\n')
        up.until("was parked")
        variables = {"FALLOW_SOCKET": socket}
        refused = as_user(EVE, "wake", f"pid:{job.pid}", **variables)
        assert refused.returncode == 77, refused
        assert "only 61001, root and operators may wake it" in refused.stderr
        assert parked(fallow)[0]["stage"] == "parked"
        woken = as_user(ADA, "wake", "mine", **variables)
        assert woken.returncode == 0, woken
        up.until("was woken")
        up.until("was parked")  # it is idle again
        assert as_user(EVE, "wake", "all", **variables).returncode == 77
        operator = as_user(f"{EVE}:{group.gr_gid}", "wake", f"pid:{job.pid}", **variables)
        assert operator.returncode == 0, operator
        up.until("was woken")
    finally:
        job.kill()
