"""What a GPU is claimed for, as others see it."""

import pytest

from fallow.engine.machine.claims_seen import launched


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("echo on GPU 3, alone", "echo"),
        ("/opt/bin/python3 /opt/bin/fallow run --gpus 3 -- echo on GPU 3, alone", "echo"),
        ("python -P -m fallow run --gpus 3 -- /usr/bin/python3 train.py", "python3"),
        ("python3 train.py -- echo", "python3"),
        ("fallow fill -- python3 sweep.py", "fallow"),
        ("python3 -m fallow run", "python3"),
    ],
)
def test_a_launch_that_is_not_its_command_yet_is_called_by_it(command: str, program: str) -> None:
    assert launched(command) == program
