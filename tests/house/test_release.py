"""`scripts/release` makes all files of a release from what is committed, or says everything that is in its way."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from tests.places import BUILD_S, REPOSITORY

pytestmark = pytest.mark.more

VERSION = "98.7.6"
SOMEBODY = {
    **{f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


class Clone:
    """A repository with the files of this one, in which a release can be prepared."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        listed = self._run(REPOSITORY, "git", "ls-files", "-co", "--exclude-standard").stdout.splitlines()
        for name in listed:
            if not (REPOSITORY / name).is_file() or name.startswith(("tests/", "bench/")):
                continue
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, folder / name)
        self._run(folder, "git", "init", "-q")
        self.commit()

    def _run(self, folder: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, **SOMEBODY}
        return subprocess.run(
            words, cwd=folder, env=environ, capture_output=True, text=True, timeout=BUILD_S, check=False
        )

    def git(self, *words: str) -> str:
        done = self._run(self.folder, "git", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "prepared")

    def write(self, name: str, pattern: str, text: str) -> None:
        """Change the first place in a file that matches."""
        path = self.folder / name
        path.write_text(re.sub(pattern, text, path.read_text(), count=1, flags=re.MULTILINE))

    def prepare(self) -> None:
        """Do what the page on releasing asks for."""
        self.write("src/fallow/__init__.py", r'^__version__ = ".*"$', f'__version__ = "{VERSION}"')
        self.write("CHANGELOG.md", r"^## Unreleased$", f"## Unreleased\n\n## {VERSION} - 2026-11-16")
        self.commit()

    def release(self, version: str = VERSION, *words: str) -> subprocess.CompletedProcess[str]:
        """Make it without the Debian package, which takes too long for a test; `.ci/run` makes one with it."""
        return self._run(self.folder, sys.executable, "scripts/release", version, "--no-deb", *words)

    def refused(self, version: str = VERSION) -> list[str]:
        """Return what is said to be in the way; nothing is made then."""
        done = self.release(version)
        assert done.returncode == 1
        assert done.stdout == ""
        assert not (self.folder / "dist").exists()
        return [line.removeprefix("release: ") for line in done.stderr.splitlines()]


@pytest.fixture
def clone(tmp_path: pathlib.Path) -> Clone:
    folder = tmp_path / "clone"
    folder.mkdir()
    return Clone(folder)


def test_all_that_is_in_the_way_of_a_release_is_said_at_once(clone: Clone) -> None:
    (clone.folder / "left over").write_text("")
    version, tree, number, section, unsaid = clone.refused("next")
    assert version.startswith("next is not a version")
    assert tree.startswith("1 files are not committed, such as ")
    assert "left over" in tree
    assert number.startswith("src/fallow/__init__.py has version ")
    assert section.startswith("CHANGELOG.md has no section ## next - YYYY-MM-DD")
    assert unsaid.startswith("CHANGELOG.md has changes below Unreleased")


def test_a_section_without_a_date_or_without_a_word_and_a_tag_that_is_there_are_in_the_way(clone: Clone) -> None:
    clone.prepare()
    clone.git("tag", f"v{VERSION}")
    clone.write("CHANGELOG.md", rf"^## {VERSION} - .*$", f"## {VERSION}")
    clone.commit()
    undated, released = clone.refused()
    assert undated.startswith(f"the section {VERSION} of CHANGELOG.md has no date")
    assert released.startswith(f"the tag v{VERSION} is there already")
    clone.git("tag", "-d", f"v{VERSION}")
    clone.write("CHANGELOG.md", rf"^## {VERSION}$", f"## {VERSION} - 2026-11-16\n\n## 0.0.1 - 2026-11-15")
    clone.commit()
    (empty,) = clone.refused()
    assert empty.startswith(f"the section {VERSION} of CHANGELOG.md is empty")


def test_a_release_has_wheel_sdist_notes_checksums_and_what_it_is_made_of(clone: Clone) -> None:
    clone.prepare()
    done = clone.release(VERSION, "--tag")
    assert done.returncode == 0, done.stderr
    made = clone.folder / "dist" / VERSION
    wheel, sdist = f"fallow-{VERSION}-py3-none-any.whl", f"fallow-{VERSION}.tar.gz"
    sbom = f"fallow-{VERSION}.cdx.json"
    assert {path.name for path in made.iterdir()} == {wheel, sdist, sbom, "NOTES.md", "SHA256SUMS"}
    sums = dict(reversed(line.split("  ")) for line in (made / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        name: hashlib.sha256((made / name).read_bytes()).hexdigest() for name in (wheel, sdist, sbom, "NOTES.md")
    }
    with zipfile.ZipFile(made / wheel) as packed:
        assert f'__version__ = "{VERSION}"' in packed.read("fallow/__init__.py").decode()
    notes = (made / "NOTES.md").read_text()
    assert "### Added" in notes
    assert "## Unreleased" not in notes
    assert clone.git("tag", "--list", "--format=%(contents)", f"v{VERSION}").strip() == notes.strip()
    parts = json.loads((made / sbom).read_text())
    assert parts["metadata"]["component"]["version"] == VERSION
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", (REPOSITORY / "requirements/run.txt").read_text(), re.MULTILINE))
    files = parts["metadata"]["component"]["externalReferences"]
    assert {each["url"]: each["hashes"][0]["content"] for each in files} == {
        name: sums[name] for name in (wheel, sdist)
    }
    found = {each["name"]: each["version"] for each in parts["components"]}
    assert found.items() <= pinned.items()
    assert {"starlette", "pydantic-core", "py-spy"} <= found.keys()
    assert "hatchling" not in found, "builds fallow, and is no part of it"
    assert all(each["externalReferences"][0]["hashes"] for each in parts["components"])
