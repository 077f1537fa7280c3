"""`fallow burn` on a real card: what it holds, how hard it works, what it finds, how fast it lets go."""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.conftest import Fallow
from tests.gpu.conftest import Report
from tests.gpu.visits import until, used_share

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(60)]

PYTORCH = """
import time, torch
a, b = (torch.randn(8192, 8192, device='cuda', dtype=torch.bfloat16) for _ in range(2))
c = a @ b
torch.cuda.synchronize()
began, done = time.perf_counter(), 0
while time.perf_counter() < began + 2:
    for _ in range(4):
        torch.matmul(a, b, out=c)
    torch.cuda.synchronize()
    done += 4
print(2 * 8192**3 * done / (time.perf_counter() - began))
"""


def burned(real: Fallow, *words: str) -> dict[str, Any]:
    done = real("burn", "--gpus", "0", "--json", *words)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["gpus"][0]
    return found


@pytest.mark.parametrize("load", ["memory", "warm", "matmul"])
def test_a_healthy_card_verifies_clean(real: Fallow, report: Report, load: str) -> None:
    ours = burned(real, "--load", load, "--verify", "--for", "2s")
    assert ours["wrong_words"] == 0
    assert ours["checked_bytes"] > 10**9
    report(
        f"burn {load} --verify: checked, traffic",
        f"{ours['checked_bytes'] / 1e9:.0f} GB, {ours['memory_bytes_per_s'] / 1e9:.0f} GB/s",
    )


def test_verify_finds_a_bit_that_was_flipped_and_products_for_older_cards_are_right(
    real: Fallow, report: Report
) -> None:
    words = [sys.executable, "-m", "tests.gpu.flipping"]
    done = subprocess.run(words, env=real.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["memory"] == {"before": 0, "after": 1, "held_bytes": 0}
    assert found["matmul"]["before"] == 0
    assert found["matmul"]["after"] > 0
    assert set(found["kinds"]) == {"bf16", "f16", "f32"}
    assert all(wrong == 0 for wrong, _ in found["kinds"].values())
    rates = ", ".join(f"{name} {rate / 1e12:.0f}" for name, (_, rate) in found["kinds"].items())
    report("each kind of product", f"{rates} TFLOP/s")


@pytest.mark.parametrize("load", ["memory", "matmul"])
def test_it_holds_88_per_cent_of_what_is_free_and_gives_it_back_at_once(
    real: Fallow, report: Report, load: str
) -> None:
    before = used_share()
    job = real.start("burn", "--gpus", "0", "--load", load)
    until(lambda: used_share() > 0.87)
    time.sleep(1)  # under full load; it must not go on taking
    held = (used_share() - before) / (1 - before)
    os.killpg(job.pid, signal.SIGTERM)
    took_s = until(lambda: used_share() < before + 0.01)
    out, err = job.communicate(timeout=20)
    assert job.returncode == 0, err
    assert "GPU" in out
    report(f"burn --load {load}: holds, SIGTERM to memory back", f"{held:.1%}, {took_s * 1000:.0f} ms")
    assert 0.87 < held < 0.90
    assert took_s < 0.25


def test_matmul_works_as_hard_as_pytorch_does_or_drives_the_card_to_its_limit(real: Fallow, report: Report) -> None:
    theirs = subprocess.run([sys.executable, "-c", PYTORCH], capture_output=True, text=True, check=True).stdout
    until(lambda: used_share() < 0.02)
    ours = burned(real, "--load", "matmul", "--for", "4s")
    rate, power = ours["flop_per_s"] / float(theirs), ours["power_max_w"] / ours["power_limit_w"]
    report(
        "burn matmul, and PyTorch's bf16 matmul",
        f"{ours['flop_per_s'] / 1e12:.0f}, {float(theirs) / 1e12:.0f} TFLOP/s",
    )
    report("burn matmul, of PyTorch's rate", f"{rate:.0%}")
    report("burn matmul, of the power limit", f"{power:.0%} ({ours['power_w']:.0f} W in the mean)")
    report("burn matmul, memory traffic", f"{ours['memory_bytes_per_s'] / 1e9:.0f} GB/s")
    assert rate >= 0.7 or power >= 0.85
