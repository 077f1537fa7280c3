"""The documents of the tools that fallow stands in for: their blocks, and the one word that changes in them."""

import pathlib
import re

DATA = pathlib.Path(__file__).parent / "data"
_ONE_WORD = {
    r"\bfrom gpuselect import": "from fallow.compat import",
    r"\bfrom gpu_sentinel import": "from fallow.compat import",
    r"\bgpuselect (?=-)": "fallow compat gpuselect ",
    r"\bpython gpu_idle_timeout\.py": "fallow compat gpu_idle_timeout",
    r"^gpu_sentinel (?=-)": "fallow compat gpu_sentinel ",
    r"\bpython gpu_sentinel\.py": "fallow compat gpu_stress",
    r"\./gpu_mon\.py": "fallow compat gpu_mon",
}


def blocks(tool: str, kind: str) -> list[str]:
    """All blocks of one kind (`python`, `shell`, `ini`, or "" for those without a word) in a tool's document."""
    text = (DATA / f"{tool}.md").read_text()
    return [block for word, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S) if word == kind]


def commands(block: str) -> list[str]:
    """The command lines of a block: what stands behind `$ `, or else every line that is not a comment."""
    lines = block.splitlines()
    prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return prompted or [line for line in lines if line.strip() and not line.startswith("#")]


def ours(text: str) -> str:
    """The same for fallow."""
    for theirs, our in _ONE_WORD.items():
        text = re.sub(theirs, our, text, flags=re.M)
    return text
