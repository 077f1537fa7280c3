"""What a process can make /proc say is read as far as it is of use, and no further."""

import os
import pathlib
import subprocess
import sys
import tracemalloc

import pytest

from fallow.core.gpu import Holder
from fallow.readers.proc import Proc
from tests.conftest import Fallow
from tests.waiting import end

pytestmark = pytest.mark.more

WAITS = "print('up', flush=True); input()"


def child(*words: str, **variables: str) -> "subprocess.Popen[str]":
    made = subprocess.Popen(
        [sys.executable, "-S", "-c", WAITS, *words],
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert made.stdout is not None
    assert made.stdout.readline() == "up\n"
    return made


def test_a_command_line_of_a_megabyte_costs_a_look_a_thousand_letters() -> None:
    """V11"""
    process = child(*["x" * 100_000] * 12)
    try:
        proc = Proc()
        tracemalloc.start()
        for _ in range(40):
            holder = proc.describe(Holder(process.pid, 1))
            names = proc.called(process.pid)
            command = proc.command(process.pid)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert isinstance(holder.command, str)
        assert isinstance(command, str)
        assert holder.command.startswith(sys.executable)
        assert len(holder.command) <= 1001
        assert len(command) <= 4096
        assert os.path.basename(sys.executable) in names
        assert peak < 200_000
    finally:
        end(process)


def test_forty_command_lines_of_a_megabyte_make_no_long_answer(simulated: Fallow) -> None:
    """V11"""
    jobs = [child(*["y" * 100_000] * 12, **simulated.on("0")) for _ in range(10)]
    try:
        done = simulated("status", "--json")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count('"pid"') == 10
        assert len(done.stdout) < 50_000
    finally:
        for job in jobs:
            end(job)


@pytest.mark.parametrize("before", [0, 1, 12], ids=["small", "one chunk", "many chunks"])
def test_what_an_environment_says_to_fallow_is_found_however_much_stands_before_it(before: int) -> None:
    """V11: padding must not hide a claim."""
    padding = {f"A{number}": "z" * 100_000 for number in range(before)}
    process = child(**padding, FALLOW_CLAIM="GPU-a,GPU-b", CUDA_VISIBLE_DEVICES="3", OTHER="x", ZZ="z" * 70_000)
    try:
        assert Proc().environ(process.pid) == {"FALLOW_CLAIM": "GPU-a,GPU-b", "CUDA_VISIBLE_DEVICES": "3"}
    finally:
        end(process)


def test_a_variable_that_is_cut_in_two_by_the_end_of_a_chunk_is_whole(tmp_path: pathlib.Path) -> None:
    """V11"""
    folder = tmp_path / "7"
    folder.mkdir()
    for shift in range(30):
        content = b"A=" + b"x" * (65536 - 20 + shift) + b"\0FALLOW_CLAIM=GPU-a\0B=1\0"
        (folder / "environ").write_bytes(content)
        assert Proc(str(tmp_path)).environ(7) == {"FALLOW_CLAIM": "GPU-a"}


def test_a_variable_that_is_longer_than_the_kernel_allows_is_read_in_part(tmp_path: pathlib.Path) -> None:
    """Any process may show memory of its own as its environment (PR_SET_MM_MAP): megabytes without an end in them."""
    place = tmp_path / "1"
    place.mkdir()
    place.joinpath("environ").write_bytes(b"FALLOW_PROTECT=" + b"x" * (4 << 20) + b"\0CUDA_VISIBLE_DEVICES=3\0")
    found = Proc(str(tmp_path)).environ(1)
    assert found is not None
    assert found["CUDA_VISIBLE_DEVICES"] == "3"
    assert (1 << 17) - 20 <= len(found["FALLOW_PROTECT"]) < (1 << 18)


def test_words_in_the_value_of_another_variable_are_no_claim() -> None:
    """V11: a value can hold any letters but the one that ends it."""
    process = child(NOTE="\nFALLOW_CLAIM=GPU-a", XFALLOW_CLAIM="GPU-b")
    try:
        assert Proc().environ(process.pid) == {}
    finally:
        end(process)
