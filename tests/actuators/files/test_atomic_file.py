"""What somebody else put where we write: neither written through nor handed over."""

import os
import pathlib

import pytest

from fallow.actuators.files.atomic_file import replace_file

NEIGHBOUR = 61003


@pytest.fixture
def shared(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder in which all users may make files."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.mark.as_root
@pytest.mark.parametrize(
    ("mode", "owner"),
    [(0o1777, 0), (0o2770, 0), (0o755, NEIGHBOUR)],
    ids=["a folder of all", "one of a group", "one of the neighbour's own"],
)
def test_a_link_of_a_neighbour_leads_nobody_to_a_file_of_their_own(
    shared: pathlib.Path, tmp_path: pathlib.Path, mode: int, owner: int
) -> None:
    shared.chmod(mode)
    precious, link = tmp_path / "precious", shared / "report.html"
    precious.write_text("precious")
    link.symlink_to(precious)
    os.lchown(link, NEIGHBOUR, NEIGHBOUR)
    os.chown(shared, owner, owner)
    with pytest.raises(PermissionError):
        replace_file(str(link), "a report")
    assert precious.read_text() == "precious"
    assert os.listdir(shared) == ["report.html"]


@pytest.mark.as_root
def test_a_file_of_a_neighbour_in_a_folder_of_all_gets_nothing_that_is_ours(shared: pathlib.Path) -> None:
    file = shared / "report.html"
    file.touch()
    os.chown(file, NEIGHBOUR, NEIGHBOUR)
    with pytest.raises(PermissionError):
        replace_file(str(file), "a report")
    assert file.read_text() == ""


@pytest.mark.as_root
def test_a_file_of_a_user_in_their_own_folder_stays_theirs(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    file = folder / "report.html"
    file.touch()
    for each in (folder, file):
        os.chown(each, NEIGHBOUR, NEIGHBOUR)
    replace_file(str(file), "a report")
    assert (file.read_text(), file.stat().st_uid) == ("a report", NEIGHBOUR)
