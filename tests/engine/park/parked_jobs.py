"""What the tests on parking share: a daemon with a rule that parks, and real processes on the stand-in driver."""

import json
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from tests.conftest import Fallow
from tests.cuda_process import CudaProcess
from tests.interfaces.cli.filled import Fill
from tests.standin import World

MIB = 2**20
RUNNING, LOCKED, CHECKPOINTED = 0, 1, 2
RULE = """
[[idle]]
name = "forgotten"
act = true
action = {action}
idle_for = "2s"
warmup = "0s"
warn_before = "1s"
grace = "30s"
[page]
enabled = false
[machine]
every = "1s"
"""


def start_up(
    fallow: Fallow, folder: pathlib.Path, action: str = '["park", "stop"]', *options: str, more: str = ""
) -> Fill:
    """Start `fallow up` with the rule, and with more of a config."""
    file = folder / "fallow.toml"
    file.write_text(RULE.format(action=action) + more)
    file.chmod(0o600)
    return Fill(fallow.start("up", "--config", str(file), *options))


def keep(fallow: Fallow, subject: str) -> None:
    """Protect a GPU or a job, so that the rule does not come before the test's next step on a slow machine."""
    done = fallow("protect", subject, "--for", "1h")
    assert done.returncode == 0, done.stderr


def parked(fallow: Fallow) -> list[Mapping[str, Any]]:
    """What `fallow status --json` says is parked."""
    found: list[Mapping[str, Any]] = json.loads(fallow("status", "--json").stdout)["parked"]
    return found


def on_the_card(world: World, library: pathlib.Path, size: int) -> CudaProcess:
    """A process with so much memory on GPU 0, and something written there."""
    process = CudaProcess(world.environ(library))
    assert process("context()") == 0
    assert process(f"globals().update(at=take({size})) or at") > 0
    assert process("code(driver.cuMemcpyHtoD(at, b'tensors', 7))") == 0
    return process


def tensors(process: CudaProcess) -> object:
    """What a process finds in its memory on the card."""
    return process("(b := bytearray(7)) and (code(driver.cuMemcpyDtoH(b, at, 7)), bytes(b).decode())[1]")


def states(world: World, jobs: Iterable[CudaProcess]) -> list[int | None]:
    """Where the driver has each process."""
    return [world.cuda_state(each.pid) for each in jobs]
