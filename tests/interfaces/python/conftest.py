"""This process as a Python program that uses fallow, on simulated GPUs."""

import pytest

from tests.conftest import Fallow


@pytest.fixture
def here(simulated: Fallow, monkeypatch: pytest.MonkeyPatch) -> Fallow:
    """Let the calls of this process find what the command finds."""
    for name, text in simulated.environ.items():
        if name.startswith("FALLOW_"):
            monkeypatch.setenv(name, text)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return simulated
