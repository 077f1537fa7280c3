"""A rule of `fallow up` parks a real process with 10 GiB of tensors, a newcomer gets the card, and it is woken.

It needs an idle GPU with 100 GiB, 20 GiB of free host memory, a driver for CUDA 12.8 or newer (570) and root.
"""

import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator

import pynvml
import pytest

from tests.conftest import Fallow
from tests.gpu.conftest import Report
from tests.gpu.visits import until, used_share
from tests.interfaces.cli.filled import Fill
from tests.places import REPOSITORY

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]

GIB = 2**30
SIZE = 10 * GIB
RULE = """
[[idle]]
name = "forgotten"
act = true
action = "park"
idle_for = "3s"
warmup = "0s"
warn_before = "2s"
[page]
enabled = false
"""
TAKE = f"""
import torch
generator = torch.Generator(device="cuda").manual_seed(7)
tensors = [torch.randint(0, 2**31, (2**28,), dtype=torch.int32, device="cuda", generator=generator)
           for _ in range({SIZE} // 2**30)]
torch.cuda.synchronize()
sums = [int(each.to(torch.int64).sum()) for each in tensors]
torch.cuda.empty_cache()
"""
COMPARE = """
same = [int(each.to(torch.int64).sum()) for each in tensors] == sums
again = torch.Generator(device="cuda").manual_seed(7)
equal = all(
    torch.equal(each, torch.randint(0, 2**31, (2**28,), dtype=torch.int32, device="cuda", generator=again))
    for each in tensors
)
answer = "equal" if same and equal else "changed"
"""
RUNS_CELLS = """
import sys
for line in sys.stdin:
    answer = ""
    exec(eval(line))
    print(answer or "done", flush=True)
"""
WHOLE_CARD = """
import torch
free, total = torch.cuda.mem_get_info()
held = torch.empty(int(total * 0.9), dtype=torch.uint8, device="cuda")
held.fill_(1)
torch.cuda.synchronize()
print("here", flush=True)
input()
"""


class Notebook:
    """A process that runs pieces of Python one after the other, as the kernel of a notebook does."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", RUNS_CELLS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid

    def __call__(self, cell: str) -> str:
        """Run a cell, and return its `answer`."""
        print(repr(cell), file=self._process.stdin, flush=True)
        return self._process.stdout.readline().strip()  # type: ignore[union-attr]

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    made = Notebook()
    yield made
    made.close()


def listed() -> set[int]:
    """The pids that the driver lists on the card."""
    pynvml.nvmlInit()
    card = pynvml.nvmlDeviceGetHandleByIndex(0)
    return {process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(card)}


def test_a_process_with_10_gib_is_parked_and_woken_and_a_newcomer_has_the_card_meanwhile(
    real: Fallow, report: Report, notebook: Notebook, tmp_path: pathlib.Path
) -> None:
    real.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
    notebook(f"{TAKE}\nanswer = 'done'")
    assert used_share() * pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).total > SIZE
    file = tmp_path / "fallow.toml"
    file.write_text(RULE)
    file.chmod(0o600)
    up = Fill(real.start("up", "--config", str(file)))
    up.until("parking ", limit_s=60)
    began = time.monotonic()
    said = up.until("was parked", limit_s=60)
    report("parked with 10 GiB, seconds", f"{time.monotonic() - began:.1f} ({said.partition(': ')[2]})")
    until(lambda: used_share() < 0.02)
    assert notebook.pid not in listed()
    os.kill(notebook.pid, 0)
    (job,) = json.loads(real("status", "--json").stdout)["parked"]
    assert "in host memory" in job["where"]
    newcomer = real.start("run", "--gpus", "0", "--", sys.executable, "-c", WHOLE_CARD)
    assert newcomer.stdout is not None
    assert newcomer.stdout.readline() == "here\n", newcomer.communicate()
    report("a newcomer beside it holds, of the card", f"{used_share():.0%}")
    taken = real("wake", f"pid:{notebook.pid}")
    assert taken.returncode == 75, taken.stderr
    report("woken while the card is taken", taken.stderr.strip())
    newcomer.communicate("\n")
    until(lambda: used_share() < 0.02)
    began = time.monotonic()
    woken = real("wake", f"pid:{notebook.pid}")
    assert woken.returncode == 0, woken.stderr
    report("woken with 10 GiB, seconds", f"{time.monotonic() - began:.1f} ({woken.stdout.strip()})")
    assert notebook.pid in listed()
    assert notebook(COMPARE) == "equal"
    report("its 10 GiB of tensors, compared with the same random numbers made again", "equal")
