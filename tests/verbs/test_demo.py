"""`fallow demo` tells the whole story, and leaves nothing behind."""

import pathlib
import re
import signal
import subprocess
import urllib.request

from tests.conftest import Fallow
from tests.verbs.filled import Fill


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
    done = subprocess.run(
        ["fallow", "demo"], env=fallow.environ, capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stderr
    for words in ("a filler, which yields", "(exit code 75)", "on two GPUs", "(exit code 7)", "my turn", "observed"):
        assert words in done.stdout
    for words in ("the page is at http://127.0.0.1:", "given back after", "stopped: idle for 20s"):
        assert words in done.stderr
    assert list(stories.iterdir()) == []
    assert leftovers(str(stories)) == []


def test_ctrl_c_ends_it_cleanly_and_the_page_was_there(fallow: Fallow, tmp_path: pathlib.Path) -> None:
    stories = tmp_path / "stories"
    stories.mkdir()
    story = Fill(fallow.start("demo", TMPDIR=str(stories)))
    address = re.findall(r"http://[0-9.:]+/", story.until("the page is at"))[0]
    with urllib.request.urlopen(address, timeout=30) as page:
        assert b"4 simulated GPUs" in page.read()
    story.process.send_signal(signal.SIGINT)
    _, said = story.process.communicate(timeout=60)
    assert story.process.returncode == -signal.SIGINT
    assert "Traceback" not in said
    assert list(stories.iterdir()) == []
    assert leftovers(str(stories)) == []
