"""The words that are gone stay gone: from what people read, and from what contributors read."""

import ast
import pathlib
import re
import subprocess

import pytest

from tests.places import REPOSITORY

NEVER = (
    r"rehears\w*",
    r"fallow hold\b",
    r"(?<!\()--load hold\b",
    r"\bhold-\d",
    r"\b(?:a|an|no|one|every|each|this|whose) holds?(?= (?:on|is|was|that|covers|ends|can|by|wins|keeps)\b|[.,;:)])",
    r"\bholds that (?:last|are|were)\b",
    r"(?:to|can) be had\b",
    r"mistakes? of (?:its|fallow's) own\b",
    r"\b(?:lies?|lain|goes?|went) fallow\b",
    r"\bfallow (?:and|or) stuck\b",
    r"\bbusy, fallow\b",
    r"activity=~?\\*[\"']fallow",
)
"""Words that the project no longer uses, wherever they are."""
NOT_FOR_PEOPLE = (
    r"\bverbs?\b",
    r"\bdeeds?\b",
    r"\bwhoever\b",
    r"\banew\b",
    r"\bsomebody who\b",
    r"\binsist\w*",
    r"\bin earnest\b",
    r"\bSeenGpu\b",
)
"""Words that no help, message, page or document uses."""
ALLOWED = {
    "src/fallow/core/did_you_mean.py": "the old words, each with the one that replaces it",
    "src/fallow/engine/history/store.py": "how older rows become today's",
    "tests/house/test_words.py": "this list",
    "tests/interfaces/cli/test_help.py": "old words, which are answered with new ones",
    "tests/engine/history/test_history.py": "an older file",
    "CHANGELOG.md": "what was renamed",
}


def tracked(*folders: str) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--", *folders], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    texts = (".py", ".md", ".html", ".js", ".css", ".toml", ".json", ".service", ".conf")
    return [name for name in listed.stdout.splitlines() if name.endswith(texts) and name not in ALLOWED]


def found(words: tuple[str, ...], name: str, text: str) -> list[str]:
    pattern = re.compile("|".join(words), re.IGNORECASE)
    return [f"{name}: …{text[max(0, m.start() - 40) : m.end() + 20]!r}" for m in pattern.finditer(text)]


def messages(source: str) -> str:
    """Every text of a module that is no docstring, one a line."""
    tree = ast.parse(source)
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in bare)
    return "\n".join(node.value for node in texts if isinstance(node.value, str))


@pytest.mark.parametrize("folder", ["src", "docs", "README.md", "CONTRIBUTING.md", "scripts"])
def test_words_that_are_gone_are_nowhere(folder: str) -> None:
    names = [name for name in tracked(folder) if not name.startswith("docs/decisions/")]
    assert [hit for name in names for hit in found(NEVER, name, (REPOSITORY / name).read_text())] == []


def test_messages_and_help_use_no_word_that_only_we_understand() -> None:
    names = [name for name in tracked("src") if name.endswith(".py")]
    texts = {name: messages((REPOSITORY / name).read_text()) for name in names}
    assert [hit for name, text in texts.items() for hit in found(NOT_FOR_PEOPLE, name, text)] == []


@pytest.mark.parametrize("folder", ["docs", "README.md", "CONTRIBUTING.md", "src/fallow/examples"])
def test_documents_use_no_word_that_only_we_understand(folder: str) -> None:
    names = [name for name in tracked(folder) if not name.startswith("docs/decisions/")]
    assert [hit for name in names for hit in found(NOT_FOR_PEOPLE, name, (REPOSITORY / name).read_text())] == []


def test_pages_use_no_word_that_only_we_understand() -> None:
    names = [name for name in tracked("src") if name.endswith(".html")]
    assert len(names) > 5
    assert [hit for name in names for hit in found(NOT_FOR_PEOPLE, name, (REPOSITORY / name).read_text())] == []


def test_every_exception_is_a_file_that_is_there() -> None:
    assert [name for name in ALLOWED if not pathlib.Path(REPOSITORY / name).exists()] == []
