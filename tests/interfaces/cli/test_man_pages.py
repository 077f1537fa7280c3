"""Each command has a man page that man shows without a warning, with all that the help says."""

import os
import pathlib
import shutil
import subprocess

import pytest

from fallow.interfaces.cli.command_words import all_commands
from fallow.interfaces.cli.main import COMMANDS
from fallow.interfaces.cli.man_pages import man_pages
from tests.conftest import Fallow
from tests.places import LIMIT_S
from tests.typed import READY, program_that_tells, shell

pytestmark = pytest.mark.more


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    folder = tmp_path_factory.mktemp("man")
    for name, text in man_pages("2026-11-16"):
        (folder / name).write_text(text)
    return {path.stem: path for path in folder.iterdir()}


def shown(*pages: pathlib.Path) -> tuple[str, str]:
    """What man shows, and what it warns of."""
    if shutil.which("man") is None:
        pytest.skip("needs man")
    done = subprocess.run(
        ["man", "--warnings", "-l", *map(str, pages)],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "MANWIDTH": "100"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    return done.stdout, done.stderr


def test_there_is_a_page_for_fallow_and_for_each_command(pages: dict[str, pathlib.Path]) -> None:
    assert set(pages) == {"fallow", *(f"fallow-{name}" for name in COMMANDS)}


def test_man_shows_every_page_without_a_warning(pages: dict[str, pathlib.Path]) -> None:
    text, warned = shown(*pages.values())
    assert warned == ""
    assert text.count("EXAMPLES") == len(pages)


def test_man_warns_of_a_page_that_is_broken(tmp_path: pathlib.Path) -> None:
    broken = tmp_path / "broken.1"
    broken.write_text(".TH BROKEN 1\n.SH NAME\nbroken \\- it is\n.NOSUCH\n")
    assert shown(broken)[1] != ""


def test_a_page_has_each_option_and_what_it_means(pages: dict[str, pathlib.Path]) -> None:
    for command in all_commands():
        if command.name in ("run", "report"):
            text = " ".join(shown(pages[f"fallow-{command.name}"])[0].split())
            options = [word for word in command.options if "--help" not in word.names]
            assert [word.names for word in options if ", ".join(word.names) not in text] == []
            assert [word.what for word in options if " ".join(word.what.split()[:4]) not in text] == []


def test_the_pages_say_nothing_of_what_is_hidden(pages: dict[str, pathlib.Path]) -> None:
    assert "over\\-ssh" not in pages["fallow-run"].read_text()


def test_help_shows_the_page_on_a_terminal_and_the_help_elsewhere(fallow: Fallow, tmp_path: pathlib.Path) -> None:
    """The installation is an environment whose prefix has the page, as a wheel puts it there."""
    prefix = tmp_path / "prefix"
    (prefix / "share" / "man" / "man1").mkdir(parents=True)
    page = prefix / "share" / "man" / "man1" / "fallow-pick.1"
    page.touch()
    program_that_tells(tmp_path / "bin" / "man")
    program = f"import sys; sys.prefix = {str(prefix)!r}; from fallow.interfaces.cli import entry; entry()"
    (tmp_path / "start.py").write_text(program)
    environ = {**fallow.environ, "PATH": f"{tmp_path / 'bin'}:{fallow.environ['PATH']}", "PS1": READY, "TERM": "dumb"}
    with shell(["sh", "-i"], environ) as typing:
        assert typing.type(f"python {tmp_path}/start.py help pick") == f"[{page}]"
        assert "usage: fallow run" in typing.type(
            f"python {tmp_path}/start.py help run; echo the en''d", answer="the end\r\n"
        )
    assert fallow("help", "pick").stdout.startswith("usage: fallow pick")
