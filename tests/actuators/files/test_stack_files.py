"""The files with stacks do not fill the disk."""

import os
import pathlib

from fallow.actuators.files.stack_files import remove_oldest, stack_file_name


def test_only_the_newest_are_kept_and_nothing_else_is_removed(tmp_path: pathlib.Path) -> None:
    for pid in range(120):
        file = tmp_path / stack_file_name(pid, 7)
        file.touch()
        os.utime(file, (pid, pid))
    (tmp_path / "journal.db").touch()
    remove_oldest(str(tmp_path))
    newest = [stack_file_name(pid, 7) for pid in range(20, 120)]
    assert sorted(os.listdir(tmp_path)) == sorted(["journal.db", *newest])
