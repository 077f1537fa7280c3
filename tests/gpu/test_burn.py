"""`fallow burn` on a real card: what it holds, how hard it works, what it finds, how fast it lets go."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pynvml
import pytest

from tests.conftest import Fallow

pytestmark = pytest.mark.gpu

Report = Callable[[str, object], None]
PYTORCH = """
import time, torch
a, b = (torch.randn(8192, 8192, device='cuda', dtype=torch.bfloat16) for _ in range(2))
c = a @ b
torch.cuda.synchronize()
began, done = time.perf_counter(), 0
while time.perf_counter() < began + 5:
    for _ in range(4):
        torch.matmul(a, b, out=c)
    torch.cuda.synchronize()
    done += 4
print(2 * 8192**3 * done / (time.perf_counter() - began))
"""


@pytest.fixture
def real(fallow: Fallow) -> Fallow:
    fallow.environ = {**os.environ, **fallow.environ}
    assert fallow("pick", "--wait", "60s").returncode == 0
    return fallow


def free_bytes() -> int:
    pynvml.nvmlInit()
    return int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).free)


def until(happened: Callable[[], bool], limit_s: float = 30.0) -> float:
    """Seconds until then."""
    began = time.perf_counter()
    while not happened():
        assert time.perf_counter() < began + limit_s, "it never happened"
        time.sleep(0.0005)
    return time.perf_counter() - began


def burned(real: Fallow, *words: str) -> dict[str, Any]:
    done = real("burn", "--gpus", "0", "--json", *words)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["gpus"][0]
    return found


def test_it_holds_88_per_cent_of_what_is_free(real: Fallow, report: Report) -> None:
    before = free_bytes()
    job = real.start("burn", "--gpus", "0")
    until(lambda: free_bytes() < 0.13 * before)
    time.sleep(1)  # it must not go on taking
    held = before - free_bytes()
    job.terminate()
    job.communicate()
    assert 0.87 < held / before < 0.90
    report("burn holds, of what is free", f"{held / before:.1%}")


@pytest.mark.parametrize("load", ["memory", "matmul"])
def test_sigterm_gives_the_memory_back_at_once(real: Fallow, report: Report, load: str) -> None:
    before = free_bytes()
    job = real.start("burn", "--gpus", "0", "--load", load)
    until(lambda: free_bytes() < 0.13 * before)
    time.sleep(1)  # under full load
    os.killpg(job.pid, signal.SIGTERM)
    took_s = until(lambda: free_bytes() > before - 2**30)
    out, err = job.communicate(timeout=20)
    assert job.returncode == 0, err
    assert "GPU" in out
    assert took_s < 0.25
    report(f"burn --load {load}: SIGTERM to memory back", f"{took_s * 1000:.0f} ms")


def test_matmul_works_as_hard_as_pytorch_does_or_drives_the_card_to_its_limit(real: Fallow, report: Report) -> None:
    theirs = subprocess.run([sys.executable, "-c", PYTORCH], capture_output=True, text=True, check=True).stdout
    assert real("pick", "--wait", "60s").returncode == 0
    ours = burned(real, "--load", "matmul", "--for", "8s")
    rate, power = ours["flop_per_s"] / float(theirs), ours["power_max_w"] / ours["power_limit_w"]
    report(
        "burn matmul, and PyTorch's bf16 matmul",
        f"{ours['flop_per_s'] / 1e12:.0f}, {float(theirs) / 1e12:.0f} TFLOP/s",
    )
    report("burn matmul, of PyTorch's rate", f"{rate:.0%}")
    report("burn matmul, of the power limit", f"{power:.0%} ({ours['power_w']:.0f} W in the mean)")
    report("burn matmul, memory traffic", f"{ours['memory_bytes_per_s'] / 1e9:.0f} GB/s")
    assert rate >= 0.7 or power >= 0.85


@pytest.mark.parametrize("load", ["memory", "warm", "matmul"])
def test_a_healthy_card_verifies_clean(real: Fallow, report: Report, load: str) -> None:
    ours = burned(real, "--load", load, "--verify", "--for", "4s")
    assert ours["wrong_words"] == 0
    assert ours["checked_bytes"] > 10**9
    report(
        f"burn {load} --verify: checked, traffic",
        f"{ours['checked_bytes'] / 1e9:.0f} GB, {ours['memory_bytes_per_s'] / 1e9:.0f} GB/s",
    )


def flipping(real: Fallow, *words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.flipping", *words],
        env=real.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_verify_finds_a_word_that_was_flipped_in_memory(real: Fallow) -> None:
    assert flipping(real, "memory", str(8 * 2**30)) == {"before": 0, "after": 1, "held_bytes": 0}


def test_verify_finds_an_operand_that_was_flipped(real: Fallow) -> None:
    found = flipping(real, "matmul", str(4 * 2**30))
    assert found["before"] == 0
    assert found["after"] > 0


def test_the_products_for_older_cards_are_right_too(real: Fallow, report: Report) -> None:
    found = flipping(real, "kinds")
    assert set(found) == {"bf16", "f16", "f32"}
    assert all(wrong == 0 for wrong, _ in found.values())
    rates = ", ".join(f"{name} {rate / 1e12:.0f}" for name, (_, rate) in found.items())
    report("each kind of product", f"{rates} TFLOP/s")


def test_letting_go_does_not_wait_for_the_thread_that_works(real: Fallow, report: Report) -> None:
    took_s = flipping(real, "leaving")
    report("letting go of 88 % under full load", f"{took_s * 1000:.0f} ms")
    assert took_s < 0.2


def test_a_burner_whose_parent_is_killed_is_gone_within_a_second(real: Fallow, report: Report) -> None:
    before = free_bytes()
    job = real.start("burn", "--gpus", "0")
    until(lambda: free_bytes() < 0.13 * before)
    job.kill()
    took_s = until(lambda: free_bytes() > before - 2**30)
    with suppress(ProcessLookupError):
        os.killpg(job.pid, signal.SIGKILL)
    assert took_s < 1.0
    report("burn killed: memory back", f"{took_s * 1000:.0f} ms")
