"""`fallow demo` tells the whole story, and leaves nothing behind."""

import pathlib
import re
import signal
import subprocess
import termios
import urllib.request

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill
from tests.places import LIMIT_S
from tests.terminal import Terminal
from tests.waiting import PROGRAM_S, until

pytestmark = pytest.mark.more


def leftovers(folder: str) -> list[str]:
    """Processes that still have the story's folder in their environment."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if folder.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_it_tells_the_whole_story_and_leaves_nothing_running(fallow: Fallow, tmp_path: pathlib.Path) -> None:
    stories = tmp_path / "stories"
    stories.mkdir()
    fallow.environ["TMPDIR"] = str(stories)
    done = subprocess.run(  # as on a terminal: what fallow says is among what it prints
        ["fallow", "demo"],
        env=fallow.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    for words in ("1 filled", "filler: ", "on GPU 3, alone", "given back after", "my turn"):
        assert words in done.stdout
    page = re.findall(r"the page is at (http://127\.0\.0\.1:\d+/)", done.stdout)[0]
    assert f"# Open the page beside this: {page}\n" in done.stdout
    assert done.stdout.index(page) < done.stdout.index("$ fallow status"), "it says first where the page is"
    assert re.findall(r"exit code (\d+)", done.stdout) == ["124"], "nothing fails but the job that was forgotten"
    ending = done.stdout.partition("# Why was it stopped?")[2]
    assert "action: " in ending
    assert "ask the job to end with SIGTERM: idle for 26s" in ending
    assert re.search(r"^python3 forgotten.py .* USD$", ending, re.MULTILINE), "who wasted it, and what it cost"
    assert "Press a key" not in done.stdout, "nobody is there to press one"
    assert done.stdout.splitlines()[-1] == "# That was it. Nothing is left running."
    assert list(stories.iterdir()) == []
    assert leftovers(str(stories)) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_and_a_hang_up_end_it_cleanly_and_the_page_was_there(
    fallow: Fallow, tmp_path: pathlib.Path, number: signal.Signals
) -> None:
    stories = tmp_path / "stories"
    stories.mkdir()
    story = Fill(fallow.start("demo", TMPDIR=str(stories)))
    address = re.findall(r"http://[0-9.:]+/", story.until("the page is at"))[0]
    until(lambda: b"4 simulated GPUs" in urllib.request.urlopen(address, timeout=LIMIT_S).read(), pause_s=PROGRAM_S)
    story.process.send_signal(number)
    _, said = story.process.communicate(timeout=LIMIT_S)
    assert story.process.returncode == -number
    assert "Traceback" not in said
    assert list(stories.iterdir()) == []
    assert leftovers(str(stories)) == []


def test_on_a_terminal_it_stays_until_a_key_is_pressed(fallow: Fallow, tmp_path: pathlib.Path) -> None:
    stories = tmp_path / "stories"
    stories.mkdir()
    environ = {name: text for name, text in fallow.environ.items() if name != "CI"} | {"TMPDIR": str(stories)}
    with Terminal(["setsid", "--ctty", "--wait", "fallow", "demo"], environ) as story:
        story.type("x")  # what is typed during the story is no answer
        address = re.findall(r"The page at (http://[0-9.:]+/) stays", story.until("Press a key"))[0]
        until(lambda: not termios.tcgetattr(story.its)[3] & termios.ICANON)
        with urllib.request.urlopen(address, timeout=LIMIT_S) as page:
            assert b"4 simulated GPUs" in page.read()
        story.type("x")
        story.until("Nothing is left running")
        assert story.ended() == 0
        assert story.is_as_before
    assert list(stories.iterdir()) == []


def test_nothing_of_the_folder_it_was_started_in_is_run_where_no_folder_of_modules_is_named(
    fallow: Fallow, tmp_path: pathlib.Path
) -> None:
    shared, ran = tmp_path / "shared", tmp_path / "ran"
    shared.mkdir()
    (shared / "sitecustomize.py").write_text(f"open({str(ran)!r}, 'w')")
    here = ("env", "-C", str(shared), "PYTHONPATH=", "fallow", "demo")
    story = Fill(fallow.start_other(*here, TMPDIR=str(tmp_path)))
    story.until("the page is at")
    story.process.send_signal(signal.SIGINT)
    story.process.communicate(timeout=LIMIT_S)
    assert not ran.exists()
