"""fallow in a real notebook: a Jupyter kernel runs what docs/guides/recipes.md tells people, and more."""

import json
import pathlib
import re
import subprocess
from typing import Any

import pytest

from tests.conftest import Fallow
from tests.places import BIN, LIMIT_S, REPOSITORY

pytestmark = pytest.mark.engine

PAGE = (REPOSITORY / "docs" / "guides" / "recipes.md").read_text()
FIRST, PROTECT = re.findall(r"```python\n(.*?)```", PAGE.partition("## A notebook")[2], re.DOTALL)
CELLS = (
    """import os, signal, subprocess, threading
import fallow
before = {each.ident for each in threading.enumerate()}, [signal.getsignal(n) for n in signal.valid_signals()]
fallow.status()""",
    FIRST,
    """os.environ["CUDA_VISIBLE_DEVICES"].count("GPU-"), subprocess.run(
    ["fallow", "pick", "-n", "4"], env={**os.environ, "CUDA_VISIBLE_DEVICES": "all"}, capture_output=True
).returncode""",
    PROTECT,
    """fallow.protect(0, for_s=600, why="<i>mine</i>")
fallow.why(0)""",
    """fallow.idle(), fallow.report()""",
    """try:
    fallow.pick(9)
except fallow.WrongUsage as error:
    said = str(error)
said""",
    """gpu = None
for each in fallow.claimed():
    each.release()
after = {each.ident for each in threading.enumerate()}, [signal.getsignal(n) for n in signal.valid_signals()]
fallow.claimed(), "CUDA_VISIBLE_DEVICES" in os.environ, after == before""",
    """fallow.claim(4)""",
)


@pytest.mark.more
def test_a_notebook_shows_tables_and_its_claim_ends_with_its_kernel(
    simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    spec = {"name": "python3", "display_name": "python3", "language": "python"}
    notebook = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": spec},
        "cells": [{**cell, "id": f"cell-{at}", "source": text} for at, text in enumerate(CELLS)],
    }
    path = tmp_path / "own.ipynb"
    path.write_text(json.dumps(notebook))
    done = subprocess.run(
        [BIN / "jupyter-execute", "--inplace", path],
        env={**simulated.environ, "JUPYTER_PLATFORM_DIRS": "0"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outputs: list[list[dict[str, Any]]] = [each["outputs"] for each in json.loads(path.read_text())["cells"]]
    assert [[each["output_type"] for each in told] for told in outputs] == [["execute_result"]] * len(CELLS), (
        "nothing is printed"
    )
    plain = ["".join(told[0]["data"]["text/plain"]) for told in outputs]
    html = ["".join(told[0]["data"].get("text/html", "")) for told in outputs]
    assert plain[0].startswith("<Status ")
    assert plain[0].endswith("4 available (4 free)>")
    assert html[0].count("<tr>") == 5
    assert re.fullmatch("<ClaimedGpus [0-3]>", plain[1])
    assert "<table" in html[1]
    assert plain[2] == "(1, 75)", "its environment is set, and others are refused"
    assert "comparing results" in html[3]
    assert "&lt;i&gt;mine&lt;/i&gt;" in html[4]
    assert plain[5].startswith("(<Idle ")
    assert "9 GPUs wanted, and this machine has 4" in plain[6]
    assert plain[7] == "((), False, True)", "what no variable has any more is released, and nothing is left behind"
    assert simulated("pick", "-n", "4").returncode == 0, "what the last cell claimed ended with its kernel"
