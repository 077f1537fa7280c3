"""Root believes no config that others could have written; and where a config is looked for."""

import os
import pathlib
import subprocess
import sys

import pytest

from fallow.core.errors import ConfigWrong
from fallow.engine.config import Config, find, load
from tests.conftest import REPOSITORY

ADA = 61001


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "etc"
    folder.mkdir(mode=0o755)
    path = folder / "fallow.toml"
    path.write_text("[machine]\nprice = 3\n")
    path.chmod(0o644)
    return path


def refusal(path: pathlib.Path) -> str:
    with pytest.raises(ConfigWrong) as caught:
        load(str(path))
    return "\n".join(mistake.in_file(str(path)) for mistake in caught.value.mistakes)


@pytest.mark.several_users
class TestAsRoot:
    def test_a_file_of_root_in_folders_of_root_is_believed(self, file: pathlib.Path) -> None:
        assert isinstance(load(str(file)), Config)

    @pytest.mark.parametrize("mode", [0o666, 0o664, 0o646])
    def test_a_file_that_others_may_write_is_refused(self, file: pathlib.Path, mode: int) -> None:
        file.chmod(mode)
        assert f"others may write to {file}" in refusal(file)
        assert f"(chmod go-w {file})" in refusal(file)

    def test_a_file_of_another_user_is_refused(self, file: pathlib.Path) -> None:
        os.chown(file, ADA, ADA)
        assert f"{file} belongs to another user" in refusal(file)

    @pytest.mark.parametrize("mode", [0o777, 0o775])
    def test_a_file_in_a_folder_that_others_may_write_is_refused(self, file: pathlib.Path, mode: int) -> None:
        file.parent.chmod(mode)
        assert f"others may write to {file.parent};" in refusal(file)

    def test_a_file_far_below_a_folder_of_another_user_is_refused(self, file: pathlib.Path) -> None:
        deep = file.parent / "a" / "b"
        deep.mkdir(parents=True)
        moved = file.rename(deep / "fallow.toml")
        os.chown(file.parent, ADA, ADA)
        assert f"{file.parent} belongs to another user" in refusal(moved)

    def test_what_is_roots_in_a_sticky_folder_is_believed(self, file: pathlib.Path) -> None:
        file.parent.chmod(0o1777)
        assert isinstance(load(str(file)), Config)

    def test_a_link_is_as_good_as_where_it_lies_and_where_it_leads(
        self, file: pathlib.Path, tmp_path: pathlib.Path
    ) -> None:
        safe = tmp_path / "safe"
        safe.mkdir(mode=0o755)
        link = safe / "fallow.toml"
        link.symlink_to("../etc/fallow.toml")
        assert isinstance(load(str(link)), Config)
        file.chmod(0o666)
        assert f"others may write to {file}" in refusal(link)
        file.chmod(0o644)
        safe.chmod(0o777)
        assert f"others may write to {safe}" in refusal(link)

    def test_a_link_that_another_user_made_is_refused(self, file: pathlib.Path, tmp_path: pathlib.Path) -> None:
        link = tmp_path / "link.toml"
        link.symlink_to(file)
        os.lchown(link, ADA, ADA)
        assert f"{link} belongs to another user" in refusal(link)

    def test_a_folder_behind_a_link_on_the_way_is_judged_too(
        self, file: pathlib.Path, tmp_path: pathlib.Path
    ) -> None:
        link = tmp_path / "way"
        link.symlink_to(file.parent)
        file.parent.chmod(0o777)
        assert f"others may write to {file.parent}" in refusal(link / "fallow.toml")
        assert f"others may write to {file.parent}" in refusal(link / ".." / "etc" / "fallow.toml")

    def test_every_reason_is_told_at_once(self, file: pathlib.Path) -> None:
        os.chown(file, ADA, ADA)
        file.chmod(0o666)
        file.parent.chmod(0o777)
        assert len(refusal(file).splitlines()) == 3

    def test_another_user_may_use_a_config_of_their_own(self, open_folder: pathlib.Path) -> None:
        file = open_folder / "fallow.toml"
        file.write_text("")
        file.chmod(0o666)
        words = [sys.executable, "-m", "tests.as_user", str(ADA), "check", str(file)]
        environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY)}
        done = subprocess.run(words, env=environ, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        file.chmod(0o600)
        done = subprocess.run(words, env=environ, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        assert done.returncode == 77
        assert "Permission denied" in done.stderr


def test_a_loop_of_links_is_refused_in_a_sentence(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert "it cannot be read" in refusal(tmp_path / "a")


def test_what_is_no_plain_file_is_refused_and_not_waited_for(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "it is no plain file" in refusal(tmp_path / "pipe")
    assert "it is a folder" in refusal(tmp_path)
    assert "there is no such file" in refusal(tmp_path / "nothing")
    assert "it is no plain file" in refusal(pathlib.Path("/dev/null"))


def test_what_is_no_text_is_refused_at_its_line(file: pathlib.Path) -> None:
    file.write_bytes(b"[page]\n# \xff\n")
    assert refusal(file).startswith(f"{file}:2: this is no UTF-8")
    file.write_bytes(b"#" * (2 << 20))
    assert "longer than 1 MiB" in refusal(file)


def test_the_mark_that_some_editors_put_before_a_text_is_passed_over(file: pathlib.Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf[page]\r\nenabled = false\r\n")
    assert load(str(file)).page.enabled is False


def test_a_config_is_looked_for_in_its_places_in_order(tmp_path: pathlib.Path) -> None:
    home, etc, xdg = tmp_path / "home", tmp_path / "etc", tmp_path / "xdg"
    environ = {"HOME": str(home)}
    assert find(environ, None, str(etc)) is None
    for folder in (etc, home / ".config", xdg):
        (folder / "fallow").mkdir(parents=True)
    machine, own, other = (folder / "fallow" / "fallow.toml" for folder in (etc, home / ".config", xdg))
    machine.write_text("")
    assert find(environ, None, str(etc)) == str(machine)
    own.write_text("")
    assert find(environ, None, str(etc)) == str(own)
    other.symlink_to("nowhere")  # a link that leads nowhere is a mistake to be told, not to be passed over
    assert find({**environ, "XDG_CONFIG_HOME": str(xdg)}, None, str(etc)) == str(other)
    assert find({**environ, "FALLOW_CONFIG": "named.toml"}, None, str(etc)) == "named.toml"
    assert find({**environ, "FALLOW_CONFIG": "named.toml"}, "given.toml", str(etc)) == "given.toml"
    assert find({}, None, str(etc)) == str(machine)
