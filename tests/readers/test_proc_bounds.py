"""What a process can make /proc say is read as far as it is of use, and no further."""

import os
import subprocess
import sys
import tracemalloc

import pytest

from fallow.core.gpu import Holder
from fallow.readers.proc import Proc
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


def test_what_an_environment_says_to_fallow_is_found_however_much_stands_before_it() -> None:
    """V11: padding must not hide a claim."""
    padding = {f"A{number}": "z" * 100_000 for number in range(12)}
    process = child(**padding, FALLOW_CLAIM="GPU-a,GPU-b", CUDA_VISIBLE_DEVICES="3", OTHER="x", ZZ="z" * 70_000)
    try:
        assert Proc().environ(process.pid) == {"FALLOW_CLAIM": "GPU-a,GPU-b", "CUDA_VISIBLE_DEVICES": "3"}
    finally:
        end(process)


def test_words_in_the_value_of_another_variable_are_no_claim() -> None:
    """V11: a value can hold any letters but the one that ends it."""
    process = child(NOTE="\nFALLOW_CLAIM=GPU-a", XFALLOW_CLAIM="GPU-b")
    try:
        assert Proc().environ(process.pid) == {}
    finally:
        end(process)
