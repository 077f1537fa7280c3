"""The recording of the demo shows what the demo does today, and nothing of the machine that it was made on."""

import re
import xml.etree.ElementTree

from tests.places import REPOSITORY

RECORDING = REPOSITORY / "docs/images/demo.svg"


def shown() -> list[str]:
    """Return the lines of the recording."""
    tree = xml.etree.ElementTree.parse(RECORDING)
    return ["".join(line.itertext()) for line in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_the_recording_has_every_command_and_heading_of_the_demo() -> None:
    source = (REPOSITORY / "src/fallow/interfaces/cli/demo.py").read_text().partition("def _tell(")[2]
    lines = shown()
    commands = re.findall(r'stage\.(?:show|start)\("(\w+)"', source)
    assert len(commands) > 5
    assert [line.split()[2] for line in lines if line.startswith("$ fallow ")] == commands
    headings = re.findall(r'stage\.say\("(.*)"\)', source)
    assert [heading for heading in headings if f"# {heading}" not in lines] == []
    assert lines[-1] == "# That was it. Nothing is left running."


def test_the_recording_is_small_and_has_no_name_or_path_of_a_machine() -> None:
    assert RECORDING.stat().st_size < 300_000
    text = "\n".join(shown())
    assert not re.search(r"/(home|root|work|Users)/|could not|Traceback|Errno", text)
    assert set(re.findall(r"(?<![\w:/])/[a-z][\w/.-]+", text)) == {"/tmp/fallow-demo/fallow.toml"}
    assert set(re.findall(r"^(\w+): 4 (?:x|simulated)", text, re.MULTILINE)) == {"box"}
    assert set(re.findall(r"(\w+)'s job", text)) <= {"me", "forgotten"}
