"""The recipes for Jupyter and systemd are tried with a real Jupyter server, and with systemd's own check of units."""

import json
import pathlib
import re
import shutil
import subprocess

from tests.conftest import refuse_to_skip
from tests.house.commands import blocks_run_by
from tests.house.stage import Stage
from tests.places import BIN, LIMIT_S, REPOSITORY
from tests.waiting import until

PAGE = (REPOSITORY / "docs" / "guides" / "recipes-for.md").read_text()
_JUPYTER = f"""#!/bin/sh
[ "$1" = lab ] && shift  # the page of JupyterLab is not installed here; its server is this one
exec {BIN}/jupyter server --allow-root --ip=127.0.0.1 --port=0 "$@"
"""


def test_a_jupyter_server_has_a_gpu_as_long_as_it_runs(tmp_path: pathlib.Path) -> None:
    (block,) = blocks_run_by(__file__)
    stage = Stage(tmp_path / "stage", with_daemon=False)
    program = stage.fallow.home / "bin" / "jupyter"
    program.write_text(_JUPYTER)
    program.chmod(0o755)
    try:
        server = stage.fallow.start_other("bash", "-c", f"exec {block.lines[0]}", JUPYTER_PLATFORM_DIRS="0")
        runtime = stage.fallow.home / ".local/share/jupyter/runtime"
        until(lambda: list(runtime.glob("jpserver-*.json")), pause_s=0.1)
        assert taken(stage) == 1
        server.terminate()
        server.communicate(timeout=LIMIT_S)
        assert taken(stage) == 0
    finally:
        stage.close()


def taken(stage: Stage) -> int:
    """Return how many GPUs are given to nobody else."""
    gpus = json.loads(stage.fallow("status", "--json").stdout)["gpus"]
    return sum(1 for gpu in gpus if not gpu["available"])


def test_the_service_of_systemd_is_one_that_systemd_takes(tmp_path: pathlib.Path) -> None:
    if shutil.which("systemd-analyze") is None:
        refuse_to_skip("there is no systemd-analyze")
    (unit,) = re.findall(r"^```ini\n# /etc/systemd/system/model.service\n(.*?)^```$", PAGE, re.M | re.S)
    unit = unit.replace("/usr/local/bin/fallow", str(BIN / "fallow")).replace("/opt/model/serve", "/bin/true")
    (tmp_path / "model.service").write_text(unit)
    words = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "model.service")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "model" in line]) == (0, [])
