"""The recipes for Jupyter, compose and systemd are tried with a real Jupyter server, with podman-compose, which says
what it would start, and with systemd's own check of units."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest

from tests.house.commands import blocks_run_by
from tests.house.stage import Stage
from tests.places import BIN, LIMIT_S, REPOSITORY
from tests.waiting import until

pytestmark = pytest.mark.more

PAGE = (REPOSITORY / "docs" / "guides" / "recipes-for.md").read_text()
_JUPYTER = f"""#!/bin/sh
[ "$1" = lab ] && shift  # the page of JupyterLab is not installed here; its server is this one
exec {BIN}/jupyter server --allow-root --ip=127.0.0.1 --port=0 "$@"
"""


_DOCKER = f"""#!/bin/sh
[ "$1" = compose ] && shift  # there is neither a GPU nor the image here: it says what it would do
exec {BIN}/podman-compose --dry-run --verbose "$@"
"""


def line_with(word: str) -> str:
    """Return the line of the page that this test runs."""
    (line,) = (line for block in blocks_run_by(__file__) for line in block.lines if word in line)
    return line


def test_a_jupyter_server_has_a_gpu_as_long_as_it_runs(tmp_path: pathlib.Path) -> None:
    stage = Stage(tmp_path / "stage", with_daemon=False)
    program = stage.fallow.home / "bin" / "jupyter"
    program.write_text(_JUPYTER)
    program.chmod(0o755)
    try:
        server = stage.fallow.start_other("bash", "-c", f"exec {line_with('jupyter')}", JUPYTER_PLATFORM_DIRS="0")
        runtime = stage.fallow.home / ".local/share/jupyter/runtime"
        until(lambda: list(runtime.glob("jpserver-*.json")), pause_s=0.1)
        assert taken(stage) == 1
        server.terminate()
        server.communicate(timeout=LIMIT_S)
        assert taken(stage) == 0
    finally:
        stage.close()


@pytest.mark.skipif(shutil.which("podman") is None, reason="podman is not installed")
def test_compose_gives_a_service_the_gpu_that_fallow_claimed_and_starts_nothing_without_one(
    tmp_path: pathlib.Path,
) -> None:
    stage = Stage(tmp_path / "stage", with_daemon=False)
    (stage.fallow.home / "bin" / "docker").write_text(_DOCKER)
    (text,) = re.findall(r"^```yaml\n(services:.*?)^```$", PAGE, re.M | re.S)
    (stage.folder / "compose.yaml").write_text(text)
    line = line_with("docker")
    try:
        done = stage.bash(line.replace("--wait", "--wait --gpus 2"))
        assert done.returncode == 0, done.stderr
        uuid = json.loads(stage.fallow("status", "--json", "2").stdout)["gpus"][0]["uuid"]
        assert f"--device nvidia.com/gpu={uuid} " in done.stderr
        assert "--label fallow.idle-for=8h " in done.stderr
        without = stage.bash(line.partition(" -- ")[2])
        assert without.returncode != 0
        assert "start it with fallow run" in without.stderr
    finally:
        stage.close()


def taken(stage: Stage) -> int:
    """Return how many GPUs are given to nobody else."""
    gpus = json.loads(stage.fallow("status", "--json").stdout)["gpus"]
    return sum(1 for gpu in gpus if not gpu["available"])


def test_the_service_of_systemd_is_one_that_systemd_takes(tmp_path: pathlib.Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    (unit,) = re.findall(r"^```ini\n# /etc/systemd/system/model.service\n(.*?)^```$", PAGE, re.M | re.S)
    unit = unit.replace("/usr/local/bin/fallow", str(BIN / "fallow")).replace("/opt/model/serve", "/bin/true")
    (tmp_path / "model.service").write_text(unit)
    words = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "model.service")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "model" in line]) == (0, [])
