"""`make` works in .venv, whatever people have set for other programs."""

import os
import subprocess

import pytest

from tests.places import LIMIT_S, REPOSITORY

LEAD_ELSEWHERE = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PYTHONPATH", "PYTHONHOME")


@pytest.mark.parametrize("name", LEAD_ELSEWHERE)
def test_what_leads_pip_or_python_elsewhere_does_not_reach_them(name: str) -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "--eval=told: ; @env", "told"],
        cwd=REPOSITORY,
        env={**os.environ, name: "1", "PIP_INDEX_URL": "kept"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    told = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    assert (told.get(name), told["PIP_INDEX_URL"]) == (None, "kept")
