"""Every command in the documents is run: here on a simulated machine with a daemon, unless its block names who does.

Nothing is only read. What goes on for ever is begun and ended: `top` by its key q, what is watched by Ctrl-C. A guard
is run dry, since it would turn this machine off. What people are asked is answered with yes.
"""

import pathlib
import signal
from collections.abc import Callable, Iterator, Mapping

import pytest

from tests import length
from tests.conftest import Fallow
from tests.house.commands import INLINE, PAGES, PLACEHOLDER, RUN_AS_THEY_ARE, Block, blocks, blocks_run_by, calls
from tests.house.stage import Stage, terminal
from tests.places import LIMIT_S, REPOSITORY

pytestmark = pytest.mark.more

NOT_PERMITTED = 77
WHOLE = ("instead-of.md", "my-job-was-stopped.md", "faq.md")
"""Pages whose sentences and tables name commands with everything that follows."""
CODES: Mapping[str, tuple[int, ...]] = {
    "idle": (0, 1, 75),  # yes, no, or it cannot be told yet
    "doctor": (0, 1),  # what is lacking depends on who runs the tests
    "why": (0, 1),  # there may be nothing to tell
    "stop": (0, 1),  # what is named may not be there
    "check": (0, 1),
}
"""How a command may end; every other one succeeds."""
BEGUN = ("fallow: guarding", "fallow: filling", "fallow: would fill")
Way = Callable[[Stage, str], None]


def ends(stage: Stage, line: str) -> None:
    """Run a line that ends by itself."""
    done = stage.bash(stage.named(line))
    allowed = {code for name in kinds(line) for code in CODES.get(name, (0,))} or {
        0,
        1,
        2,
    }  # a process that ended while grep read it
    assert done.returncode in allowed, f"{line}: {done.returncode}\n{done.stderr}"
    assert "internal error" not in done.stderr, line


def is_asked(stage: Stage, line: str) -> None:
    """Run a line that asks before it stops a job, and agree."""
    stage.job("3")
    with terminal(stage, stage.named(line)) as person:
        person.types("y\n")
        assert person.ends() in CODES["stop"], f"{line}\n{person.seen}"
        assert "internal error" not in person.seen


def shows(stage: Stage, line: str) -> None:
    """Run a line that shows GPUs until a key ends it."""
    with terminal(stage, stage.named(line)) as person:
        person.sees("H100")
        person.types("q" if kinds(line) == {"top"} else "\x03")
        assert person.ends() in (0, -signal.SIGINT), f"{line}\n{person.seen}"


def begins(stage: Stage, line: str) -> None:
    """Begin a line that goes on: only what is wrong ends at once."""
    (call, *_) = calls(stage.named(line))
    dry = ["--dry-run"] if call[0] == "guard" and "--dry-run" not in call else []
    begun = stage.fallow.start(call[0], *dry, *call[1:])
    assert begun.stderr is not None
    said = begun.stderr.readline()
    if not said.startswith(BEGUN):
        assert begun.wait(LIMIT_S) == NOT_PERMITTED, f"{line}\n{said}"
    begun.terminate()
    begun.communicate(timeout=LIMIT_S)


def serves(stage: Stage, line: str) -> None:
    """Run a daemon for a second, on a machine of its own: this one has its daemon."""
    (call,) = calls(line)
    other = Fallow(stage.fallow.home / "other")
    (other.home / "fallow.toml").write_text("[machine]\nevery = '1s'\n")
    other.environ |= {"FALLOW_SIMULATE": "8xH100", "FALLOW_CONFIG": str(other.home / "fallow.toml")}
    words = [str(other.home / "fallow.toml") if word == "fallow.toml" else word for word in call]
    done = other(*words, "--for", "1s", "--listen", "127.0.0.1:0")
    assert done.returncode == 0, f"{line}\n{done.stderr}"


def kinds(line: str) -> set[str]:
    """Return which commands of fallow a line calls."""
    return {call[0] for call in calls(line)}


def way(line: str) -> Way:
    """Return how a line is run."""
    match [call[0] for call in calls(line)]:
        case ["top"]:
            return shows
        case ["status"] if "--watch" in line:
            return shows
        case ["stop"] if "--dry-run" not in line:
            return is_asked
        case ["fill" | "guard", *_]:
            return begins
        case ["up"]:
            return serves
        case _:
            return ends


def shape(line: str) -> str:
    """Return the line, or of commands that take long which options it has: others with the same are run in full."""
    match calls(line):
        case [["run" | "fill" | "guard" | "report" | "burn", *rest], *_] if not length.MORE:
            own = rest[: [*rest, "--"].index("--")]
            return " ".join([*sorted(kinds(line)), *sorted(word for word in own if word.startswith("-"))])
        case _:
            return line


def in_sentences() -> Iterator[Block]:
    """Yield the commands in tables that set fallow beside other tools, and in sentences that name whole ones."""
    for page in PAGES:
        for number, row in enumerate(page.read_text().splitlines(), 1):
            if page.name in WHOLE or (page == REPOSITORY / "README.md" and row.startswith("| ")):
                for command in INLINE.findall(row):
                    if not PLACEHOLDER.search(command) and is_whole(command):
                        yield Block(page, number, "sentence", [command])


def is_whole(command: str) -> bool:
    """Whether nothing has to follow: `fallow run` alone is a name."""
    match calls(command):
        case [[name]]:
            return name in ("status", "top", "pick", "why", "doctor", "report")
        case [["run", *rest]]:
            return "--" in rest
        case [["resume", *_]]:
            return False  # tests/house/test_commands_kubernetes.py
        case found:
            return found != []


def to_run() -> dict[pathlib.Path, list[str]]:
    """Return the lines that are run here, each once, by the page that has them first."""
    found: dict[pathlib.Path, list[str]] = {}
    shapes: set[str] = set()
    for block in [*(block for page in PAGES for block in blocks(page)), *in_sentences()]:
        if block.run_by or block.needs is not None or is_transcript(block):
            continue
        for line in block.lines:
            command = line.partition(" # ")[0].strip()
            if shape(command) not in shapes and (calls(command) or command.startswith(RUN_AS_THEY_ARE)):
                shapes.add(shape(command))
                found.setdefault(block.page, []).append(command)
    return found


def is_transcript(block: Block) -> bool:
    """Whether tests/house/test_readme.py runs it, and compares what it prints."""
    return block.page == REPOSITORY / "README.md" and block.kind == "console"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("stage"))
    yield made
    made.close()


@pytest.mark.parametrize("page", to_run(), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_command_of_a_document_runs(page: pathlib.Path, stage: Stage) -> None:
    lines = to_run()[page]
    for line in lines:
        way(line)(stage, line)
    if any("protect" in kinds(line) for line in lines):
        stage.unprotect()


def test_the_lines_that_are_run_are_of_every_way() -> None:
    assert {way(line) for lines in to_run().values() for line in lines} == {ends, is_asked, shows, begins, serves}


def test_a_command_that_does_not_work_is_found(stage: Stage) -> None:
    for wrong in (
        "fallow statsu",
        "fallow top --activity nosuch",
        "fallow fill --idle-for soon -- true",
    ):
        with pytest.raises(AssertionError):
            way(wrong)(stage, wrong)


def test_a_file_of_commands_runs_one_on_each_gpu(stage: Stage) -> None:
    (block,) = blocks_run_by(__file__)
    (stage.folder / "gpu_commands.txt").write_text('echo "$CUDA_VISIBLE_DEVICES" >> gpus\n' * 5)
    done = stage.bash(block.lines[0])
    assert done.returncode == 0, done.stderr
    gpus = (stage.folder / "gpus").read_text().splitlines()
    assert len(gpus) == 5
    assert {gpu[-1] for gpu in gpus} <= {"0", "1", "2"}
