"""V16: the state folder is ours alone, or it is not used."""

import os
import pathlib
import subprocess
import sys

import pytest

from fallow.actuators.files.state_folder import path_of, prepared, private_file
from fallow.core.errors import FallowError, NotPermitted
from tests.conftest import Fallow
from tests.places import LIMIT_S, REPOSITORY

US, NEIGHBOUR = 4242, 4243


def as_user(fallow: Fallow, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """fallow as somebody whom the password database does not know, with only these variables."""
    return subprocess.run(
        [sys.executable, "-m", "tests.as_user", str(US), *words],
        cwd=REPOSITORY,
        env={"PATH": fallow.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "FALLOW_SIMULATE": "1xT4", **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


def test_a_folder_is_made_for_us_alone(tmp_path: pathlib.Path) -> None:
    made = prepared(str(tmp_path / "a" / "b"))
    assert made == str(tmp_path / "a" / "b")
    assert [os.stat(path).st_mode & 0o777 for path in (tmp_path / "a", tmp_path / "a" / "b")] == [0o700, 0o700]


def test_a_file_there_is_for_us_alone_and_never_opened(tmp_path: pathlib.Path) -> None:
    """F2: no descriptor of a database beside SQLite."""
    opened = os.listdir("/proc/self/fd")
    path = pathlib.Path(private_file(str(tmp_path), "journal.db"))
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    private_file(str(tmp_path), "journal.db")
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(os.listdir("/proc/self/fd")) == len(opened)


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path: pathlib.Path, mode: int) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(mode)
    with pytest.raises(NotPermitted, match=r"others may write to .*; try: chmod go-w"):
        prepared(str(tmp_path / "state"))


def test_a_link_of_ours_leads_on_and_what_is_no_folder_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "big disk").mkdir()
    (tmp_path / "state").symlink_to("big disk")
    assert prepared(str(tmp_path / "state")) == str(tmp_path / "big disk")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(FallowError, match="Too many levels of symbolic links"):
        prepared(str(tmp_path / "loop"))
    (tmp_path / "file").touch()
    for path in ("file", "file/below"):
        with pytest.raises(FallowError, match="Not a directory"):
            prepared(str(tmp_path / path))


@pytest.mark.as_root
@pytest.mark.parametrize("what", ["folder", "parent", "link"])
def test_what_somebody_else_has_made_first_is_refused(tmp_path: pathlib.Path, what: str) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (tmp_path / "ours").mkdir(mode=0o755)
    match what:
        case "folder" | "parent":
            (shared / "fallow").mkdir(mode=0o777)
        case "link":
            (shared / "fallow").symlink_to(tmp_path / "ours")
    os.chown(shared / "fallow", NEIGHBOUR, NEIGHBOUR, follow_symlinks=False)
    path = shared / "fallow" / "below" if what == "parent" else shared / "fallow"
    with pytest.raises(NotPermitted, match=f"user {NEIGHBOUR}"):
        prepared(str(path))
    assert os.stat(tmp_path / "ours").st_mode & 0o777 == 0o755, "nobody's mode is changed through a link"


@pytest.mark.as_root
def test_root_looks_where_root_is_whatever_home_sudo_has_kept() -> None:
    assert path_of({"HOME": "/home/somebody", "XDG_STATE_HOME": "/home/somebody/x"}) == "/var/lib/fallow"


@pytest.mark.as_root
def test_without_a_home_there_is_an_error_that_says_what_to_do_and_nothing_in_tmp(fallow: Fallow) -> None:
    done = as_user(fallow, "report")
    assert done.returncode == 125
    assert f"HOME is not set, and user {US} has no home; set FALLOW_STATE_DIR" in done.stderr
    assert "/tmp" not in done.stderr


@pytest.mark.as_root
@pytest.mark.more
def test_a_users_journal_is_not_kept_where_a_neighbour_could_read_it(
    fallow: Fallow, open_folder: pathlib.Path
) -> None:
    claims = open_folder / "claims"
    claims.mkdir()
    claims.chmod(0o1777)
    hers = open_folder / "hers"
    hers.mkdir()
    os.chown(hers, NEIGHBOUR, NEIGHBOUR)
    hers.chmod(0o777)
    done = as_user(
        fallow,
        *("run", "--idle-timeout", "1h", "--", "echo", "ran"),
        FALLOW_STATE_DIR=str(hers / "state"),
        FALLOW_CLAIM_DIR=str(claims),
    )
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    assert f"no journal is kept in {hers}/state/simulated for now: {hers} belongs to user {NEIGHBOUR}" in done.stderr
    assert list(hers.iterdir()) == []


@pytest.mark.as_root
@pytest.mark.more
def test_a_journal_in_a_folder_that_cannot_be_written_is_told_in_words(
    fallow: Fallow, open_folder: pathlib.Path
) -> None:
    claims, shut = open_folder / "claims", open_folder / "shut"
    claims.mkdir()
    claims.chmod(0o1777)
    shut.mkdir(mode=0o555)
    os.chown(shut, US, US)
    done = as_user(
        fallow,
        *("run", "--idle-timeout", "1h", "--", "echo", "ran"),
        FALLOW_STATE_DIR=str(shut),
        FALLOW_CLAIM_DIR=str(claims),
    )
    assert f"{shut}/simulated cannot be used: Permission denied; set FALLOW_STATE_DIR to a folder of" in done.stderr
