"""`to_dict()` is what the command prints as JSON, without a daemon and with one; and nothing is left behind."""

import json
import subprocess
import sys
import textwrap
from typing import Any

import pytest

import fallow
from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill
from tests.places import LIMIT_S
from tests.standin import World
from tests.waiting import until


def printed(run: Fallow, *words: str) -> Any:
    return json.loads(run(*words).stdout)


def without(facts: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: each for name, each in facts.items() if name not in names}


def test_each_call_returns_what_its_command_prints(here: Fallow, capfd: pytest.CaptureFixture[str]) -> None:
    placed = fallow.protect(1, for_s=600, why="debugging")
    assert fallow.protections().to_dict() == printed(here, "protect", "--list", "--json")
    assert [placed.to_dict()] == fallow.protections().to_dict()["protections"]
    looked = fallow.status("0-1")
    assert without(looked.to_dict(), "at") == without(printed(here, "status", "0-1", "--json"), "at")
    assert looked.gpus[1].protection == placed
    assert fallow.idle("0,1").to_dict() == printed(here, "idle", "0,1", "--json")
    assert fallow.why(1).to_dict() == printed(here, "why", "1", "--json")
    assert fallow.pick(gpus=2).to_dict() == printed(here, "pick", "--gpus", "2", "--format", "json")
    told = fallow.report(by="user", price="$2/h").to_dict()
    said = printed(here, "report", "--by", "user", "--price", "$2/h", "--format", "json")
    assert set(told) == set(said)
    for name in ("by", "currency", "gpus", "lines", "total"):
        assert told[name] == said[name], "the others name the moment"
    placed.release()
    placed.release()
    assert fallow.protections() == ()
    assert capfd.readouterr() == ("", ""), "nothing is printed"


def test_a_protection_ends_with_its_block(here: Fallow) -> None:
    with fallow.protect(for_s=600) as placed:
        assert [each.id for each in fallow.protections()] == [placed.id]
    assert fallow.protections() == ()
    assert repr(placed).endswith("(released)>")
    assert ">released</td>" in placed._repr_html_(), "a notebook shows the table only"


def test_errors_have_the_sentence_of_the_command_and_its_exit_code(here: Fallow) -> None:
    with pytest.raises(fallow.WrongUsage) as caught:
        fallow.protect("user:nobody-of-this-name", for_s=60)
    said = here("protect", "user:nobody-of-this-name", "--for", "60s")
    assert said.stderr == f"fallow: {caught.value}\n"
    assert said.returncode == caught.value.exit_code
    with pytest.raises(fallow.NoDaemon, match="only it looks at the cluster"):
        fallow.idle("slurm:1")


def test_a_call_leaves_no_thread_no_file_and_no_signal_handler(world: World, fallow: Fallow) -> None:
    program = textwrap.dedent("""
        import os, signal, threading
        import fallow

        def handlers():
            return [signal.getsignal(number) for number in signal.valid_signals()]

        before = handlers()
        fallow.status(), fallow.idle(), fallow.why(0), fallow.report()
        files = set(os.listdir("/proc/self/fd"))
        with fallow.claim(2), fallow.protect(3, for_s=60):
            assert fallow.claimed()[0].gpus[0].memory_total_bytes > 0
            fallow.status(), fallow.idle(), fallow.why(0), fallow.report()
        assert fallow.claimed() == ()
        assert set(os.listdir("/proc/self/fd")) == files
        assert handlers() == before
        for thread in threading.enumerate():
            if thread is not threading.main_thread():
                thread.join()
    """)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=fallow.environ,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.more
def test_with_a_daemon_the_calls_know_for_how_long(here: Fallow) -> None:
    Fill(here.start("up")).until("up, ")
    looked = until(fallow.status, lambda told: all(gpu.for_s for gpu in told.gpus))
    assert set(looked.to_dict()) == set(printed(here, "status", "--json"))
    lasted_s = min(gpu.for_s or 0.0 for gpu in looked.gpus)
    assert fallow.idle(for_s=lasted_s)
    assert fallow.idle(for_s=30 * 86400).idle is False
    with fallow.protect(2, for_s=600) as placed:
        assert fallow.status(2).gpus[0].protection == placed
        assert fallow.why(2).watched
    until(lambda: fallow.status(2).gpus[0].protection is None)
    found = fallow.report()
    assert set(found.to_dict()) == set(printed(here, "report", "--format", "json"))
