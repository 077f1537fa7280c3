"""What docs/guides/recipes.md tells people to write down works as it stands there, with shorter times."""

import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import BIN, Fallow
from tests.interfaces.cli.filled import Fill
from tests.places import LIMIT_S, REPOSITORY
from tests.real_hub import Hub
from tests.waiting import PROGRAM_S, until

pytestmark = pytest.mark.more

PAGE = (REPOSITORY / "docs" / "guides" / "recipes.md").read_text()
WORKS = "while True: pass"
StartHub = Callable[[str], Hub]


def blocks(heading: str, language: str) -> list[str]:
    """Return the code of one language below a heading of the page."""
    _, _, rest = PAGE.partition(f"## {heading}")
    return re.findall(rf"```{language}\n(.*?)```", rest.partition("\n## ")[0], re.DOTALL)


@pytest.fixture
def start_hub(tmp_path: pathlib.Path, simulated: Fallow) -> Iterator[StartHub]:
    made: list[Hub] = []

    def start(config: str) -> Hub:
        made.append(Hub(tmp_path / "hub", simulated.environ, config))
        return made[-1]

    yield start
    for hub in made:
        hub.close()


@pytest.mark.more
@pytest.mark.engine
def test_the_culler_of_jupyterhub_ends_a_server_on_an_idle_gpu_and_none_that_works_or_cannot_be_told(
    simulated: Fallow, start_hub: StartHub, tmp_path: pathlib.Path
) -> None:
    culler, config = blocks("JupyterHub", "python")
    # Nobody is culled before both kernels are there, however slowly they start.
    both_run = f"not __import__('os').path.exists('{tmp_path}/both-run') or inactive.total_seconds()"
    culler = culler.replace("inactive.total_seconds()", both_run).replace("30m", "2s")
    (tmp_path / "culler.py").write_text(culler)
    config = config.replace("/srv/jupyterhub", str(tmp_path))
    hub = start_hub(config.replace("--timeout=3600", '--timeout=1", "--cull-every=1'))
    hub.kernelspec("resting", "0", works=False)
    hub.kernelspec("working", "1", works=True)
    log = Fill(hub.process, on_stdout=True)
    log.until("JupyterHub is now running")
    hub.start_server("ada", "resting")
    hub.start_server("bob", "working")
    until(lambda: "GPU 0: idle: held, nothing runs" in simulated("idle").stdout, pause_s=PROGRAM_S)
    until(lambda: "GPU 1: in use: busy" in simulated("idle").stdout, pause_s=PROGRAM_S)
    (tmp_path / "both-run").touch()
    log.until("GPU 0: cannot be told", 2)  # nobody watches yet
    assert hub.is_ready("ada")
    up = Fill(simulated.start("up"))
    up.until("up, ")
    log.until("Culling server ada")
    until(lambda: not hub.is_ready("ada"), pause_s=0.2)
    log.until("GPU 1: in use: busy", 2)
    assert hub.is_ready("bob")
    assert "Culling server bob" not in "\n".join(log.said)


def test_the_line_of_cron_runs_only_while_nobody_works(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    (line,) = blocks("cron", "crontab")
    command = line.split(None, 5)[5].replace("/usr/local/bin", str(BIN)).replace("1h", "2s")
    tool = tmp_path / "nightly-benchmark"
    tool.write_text(f"#!/bin/sh\necho ran >> {tmp_path}/log\n")
    tool.chmod(0o755)
    bare = {name: text for name, text in simulated.environ.items() if name.startswith("FALLOW")}

    def cron() -> int:
        environ = {"PATH": f"/usr/bin:/bin:{tmp_path}", "SHELL": "/bin/sh", "HOME": str(tmp_path), **bare}
        ran = subprocess.run(
            ["/bin/sh", "-c", command], env=environ, capture_output=True, timeout=LIMIT_S, check=False
        )
        return ran.returncode

    assert cron() == 75  # nobody has watched
    Fill(simulated.start("up")).until("up, ")
    with subprocess.Popen([sys.executable, "-c", WORKS], env=simulated.on("2")) as job:
        until(lambda: simulated("idle", "2").returncode, lambda code: code == 1, pause_s=PROGRAM_S)
        assert cron() == 1
        job.kill()
    assert not (tmp_path / "log").exists()
    until(cron, lambda code: code == 0, pause_s=PROGRAM_S)
    assert (tmp_path / "log").read_text() == "ran\n"


def test_the_step_of_ci_gets_a_gpu_of_its_own_or_75(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    (step,) = blocks("A CI runner", "sh")
    make = tmp_path / "bin" / "make"
    make.parent.mkdir()
    make.write_text("#!/bin/sh\necho on $CUDA_VISIBLE_DEVICES\n")
    make.chmod(0o755)
    environ = {**simulated.environ, "PATH": f"{make.parent}:{simulated.environ['PATH']}"}

    def runner() -> subprocess.CompletedProcess[str]:
        line = step.replace("30m", "1s")
        return subprocess.run(
            ["/bin/sh", "-c", line], env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )

    assert re.fullmatch(r"on GPU-\S+\n", runner().stdout)
    others = simulated.start("run", "-n", "4", "--", "sleep", "1000")
    until(lambda: simulated("pick").returncode, lambda code: code == 75, pause_s=PROGRAM_S)
    assert runner().returncode == 75
    others.kill()


def test_the_script_for_a_cloud_says_0_only_for_gpus_that_were_idle_for_so_long(
    simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    (script,) = blocks("A cloud", "sh")
    file = tmp_path / "autostop"
    file.write_text(script.replace("30m", "2s"))
    file.chmod(0o755)

    def asked(**variables: str) -> int:
        environ = {**simulated.environ, **variables}
        return subprocess.run([file], env=environ, capture_output=True, timeout=LIMIT_S, check=False).returncode

    assert asked() == 1  # nobody has watched
    assert asked(PATH="/usr/bin:/bin") == 1  # there is no fallow
    Fill(simulated.start("up")).until("up, ")
    until(asked, lambda code: code == 0, pause_s=PROGRAM_S)
