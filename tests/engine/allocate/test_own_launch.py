"""A launch that would wait for the launch that it runs in is told so at once; every other one waits."""

import pytest

from tests.conftest import Fallow

HELD = "held by the launch that this one runs in: "


@pytest.mark.parametrize("command", ["run --wait -n 4 -- true", "run --wait --shared -- true", "pick --wait"])
def test_a_wait_for_the_launch_around_it_is_refused_at_once_and_says_who_holds_the_gpus(
    simulated: Fallow, command: str
) -> None:
    done = simulated("run", "-n", "4", "--", "sh", "-c", f"fallow {command}; echo $?")
    assert done.stdout == "75\n", done.stderr
    assert f"; {HELD}4 of 4" in done.stderr
    assert "GPU 3: claimed by " in done.stderr


@pytest.mark.more
def test_it_is_refused_under_a_supervised_job_and_where_the_claim_is_not_inherited(simulated: Fallow) -> None:
    closed = "import subprocess; subprocess.run(['fallow', 'run', '--wait', '--', 'true'])"
    done = simulated("run", "--idle-timeout", "1h", "--", "python", "-c", closed)
    assert f"need 1 GPU; {HELD}1 of 1" in done.stderr


def test_gpus_that_the_launch_around_it_does_not_hold_are_given(simulated: Fallow) -> None:
    inner = "unset CUDA_VISIBLE_DEVICES; fallow run --wait -n 3 -- echo three; fallow run --wait -n 4 -- echo four"
    done = simulated("run", "--", "sh", "-c", inner)
    assert done.stdout == "three\n"
    assert f"need 4 GPUs; {HELD}1 of 4" in done.stderr


@pytest.mark.more
def test_what_only_names_the_gpus_as_its_own_waits_for_the_others_that_hold_them(simulated: Fallow) -> None:
    """FALLOW_CLAIM outlives the launch, in a tmux that was started there: it alone proves nothing."""
    uuids = simulated("pick", "-n", "4", "--format", "uuid").stdout.strip()
    other = simulated.start("run", "-n", "4", "--", "sh", "-c", "echo runs; exec sleep 1000")
    assert other.stdout is not None
    assert other.stdout.readline() == "runs\n"
    done = simulated("run", "--wait", "1s", "-n", "4", "--", "true", FALLOW_CLAIM=uuids)
    assert "0 available after waiting 1s" in done.stderr
    assert HELD not in done.stderr
