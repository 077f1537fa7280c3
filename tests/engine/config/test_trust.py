"""Root believes no config that others could have written; and where a config is looked for."""

import os
import pathlib
import pwd
import subprocess
import sys
from collections.abc import Callable

import pytest

from fallow.compat.gpu_mon_file import read as read_ini
from fallow.core.errors import ConfigWrong
from fallow.engine.config.load import load
from fallow.engine.config.location import find, searched
from fallow.engine.config.model import Config
from fallow.readers.file_trust import Followed
from tests.conftest import Fallow
from tests.places import REPOSITORY

ADA = 61001


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "etc"
    folder.mkdir(mode=0o755)
    path = folder / "fallow.toml"
    path.write_text("[machine]\nprice = 3\n")
    path.chmod(0o644)
    return path


def far_away(folder: pathlib.Path) -> pathlib.Path:
    """A file whose real path is too long for the kernel, by a short one through relative links."""
    for number in range(3):
        deep = "/".join(["d" * 200] * 15)
        (folder / deep).mkdir(parents=True)
        (folder / f"link{number}").symlink_to(deep)
        os.close(os.open(folder / deep / "fallow.toml", os.O_CREAT | os.O_WRONLY, 0o644))
        folder = folder / f"link{number}"
    return folder / "fallow.toml"


def refusal(path: pathlib.Path) -> str:
    with pytest.raises(ConfigWrong) as caught:
        load(str(path))
    return "\n".join(mistake.in_file(str(path)) for mistake in caught.value.mistakes)


@pytest.mark.as_root
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

    @pytest.mark.parametrize("read", [load, read_ini], ids=["config", "gpu_mon"])
    def test_a_file_behind_links_that_are_longer_than_any_path_may_be_is_judged_all_the_same(
        self, open_folder: pathlib.Path, read: Callable[[str], object]
    ) -> None:
        """V1: the kernel refuses to look at its whole path at once, and that was taken for nothing to be said."""
        path = far_away(open_folder)
        os.truncate(path, 0)
        path.write_text("[process-a]\ncmd=true\n" if read is read_ini else "")
        assert read(str(path)), "of root all along the way"
        os.chown(path, ADA, ADA)
        with pytest.raises(ConfigWrong) as caught:
            read(str(path))
        assert "belongs to another user" in caught.value.mistakes[0].sentence

    @pytest.mark.parametrize("verb", [("check",), ("up", "--for", "1s", "--config")], ids=["check", "up"])
    @pytest.mark.more
    def test_where_the_working_folder_is_gone_nothing_is_believed_that_was_not_before(
        self, simulated: Fallow, open_folder: pathlib.Path, verb: tuple[str, ...]
    ) -> None:
        """V1: that root's working folder cannot be told was taken for nothing to be said."""
        theirs = open_folder / "theirs.toml"
        theirs.write_text("")
        os.chown(theirs, ADA, ADA)
        mine = open_folder / "mine.toml"
        mine.write_text("")
        for name, code, says in (
            (str(theirs), 78, f"{theirs} belongs to another user"),
            ("../theirs.toml", 78, "the working folder cannot be found"),
            (str(mine), 0, ""),
        ):
            line = 'mkdir gone && cd gone && rmdir ../gone && exec fallow "$@"'
            done = subprocess.run(
                ["sh", "-c", line, "sh", *verb, name],
                env=simulated.environ,
                cwd=open_folder,
                capture_output=True,
                text=True,
                check=False,
            )
            assert (done.returncode, says in done.stdout + done.stderr) == (code, True), done

    def test_root_looks_in_its_own_home_whatever_sudo_kept(self, fallow: Fallow, open_folder: pathlib.Path) -> None:
        """V1: with HOME or XDG_CONFIG_HOME of whoever called sudo."""
        file = open_folder / ".config" / "fallow" / "fallow.toml"
        file.parent.mkdir(parents=True)
        file.write_text("x = 1\n")
        variables = {"HOME": str(open_folder), "XDG_CONFIG_HOME": str(open_folder / ".config")}
        assert str(open_folder) not in " ".join(searched(variables))
        assert searched(variables)[0].startswith(pwd.getpwuid(0).pw_dir)
        said = fallow("compat", "gpu_mon", HOME=str(open_folder))
        assert f"{pwd.getpwuid(0).pw_dir}/.config/gpu_mon.conf" in said.stderr

    def test_what_took_the_place_of_a_judged_file_is_not_read(self, file: pathlib.Path) -> None:
        """V1: what is read is what was judged."""
        with Followed(str(file)) as followed:
            assert followed.doubts == []
            file.unlink()
            file.write_text("[machine]\nprice = 4\n")
            with pytest.raises(OSError, match="in another's place"):
                followed.open(os.O_RDONLY)
        with Followed(str(file)) as followed:
            file.unlink()
            file.symlink_to("/etc/passwd")
            with pytest.raises(OSError, match="symbolic link"):
                followed.open(os.O_RDONLY)

    @pytest.mark.parametrize("name", ["x" * 300, "a/" * 5000, "\0"])
    def test_what_cannot_be_looked_at_is_a_doubt(self, name: str) -> None:
        """V1: an error is a doubt."""
        with Followed(f"/{name}") as followed:
            assert followed.doubts or followed.missing
        with pytest.raises(ConfigWrong):
            load(f"/{name}")

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
    assert "it is not a plain file" in refusal(tmp_path / "pipe")
    assert "it is a folder" in refusal(tmp_path)
    assert "there is no such file" in refusal(tmp_path / "nothing")
    assert "it is not a plain file" in refusal(pathlib.Path("/dev/null"))


def test_what_is_no_text_is_refused_at_its_line(file: pathlib.Path) -> None:
    file.write_bytes(b"[page]\n# \xff\n")
    assert refusal(file).startswith(f"{file}:2: this is not UTF-8")
    file.write_bytes(b"#" * (2 << 20))
    assert "longer than 1 MiB" in refusal(file)


def test_the_mark_that_some_editors_put_before_a_text_is_passed_over(file: pathlib.Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf[page]\r\nenabled = false\r\n")
    assert load(str(file)).page.enabled is False


def places(check: subprocess.CompletedProcess[str]) -> str:
    return check.stdout.split(": no mistakes")[0] if check.returncode == 0 else check.stderr


@pytest.mark.as_root
@pytest.mark.more
def test_a_config_of_a_user_is_looked_for_in_its_places_in_order(open_folder: pathlib.Path) -> None:
    """F19: and the machine's, which may start things as root, is not among them."""

    def check(*words: str, **variables: str) -> str:
        environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY), "HOME": str(open_folder), **variables}
        line = [sys.executable, "-m", "tests.as_user", str(ADA), "check", *words]
        return places(subprocess.run(line, env=environ, cwd=REPOSITORY, capture_output=True, text=True, check=False))

    own, other, named, given = (open_folder / name for name in (".config", "xdg", "named.toml", "given.toml"))
    assert f"no config to check, not {own}/fallow/fallow.toml;" in check()
    for folder in (own, other):
        (folder / "fallow").mkdir(parents=True)
        (folder / "fallow" / "fallow.toml").write_text("")
    named.write_text("")
    given.write_text("")
    assert check() == f"{own}/fallow/fallow.toml"
    assert check(XDG_CONFIG_HOME=str(other)) == f"{other}/fallow/fallow.toml"
    assert check(XDG_CONFIG_HOME=str(other), FALLOW_CONFIG=str(named)) == str(named)
    assert check(str(given), FALLOW_CONFIG=str(named)) == str(given)
    (other / "fallow" / "fallow.toml").unlink()
    (other / "fallow" / "fallow.toml").symlink_to("nowhere")  # a mistake to be told, not to be passed over
    assert check(XDG_CONFIG_HOME=str(other)) == ""


@pytest.mark.as_root
def test_the_machines_own_config_is_found_by_root_alone(open_folder: pathlib.Path) -> None:
    """F19: an ordinary user's `fallow up` started root's fillers as that user."""
    machine = open_folder / "fallow" / "fallow.toml"
    machine.parent.mkdir()
    machine.write_text("")
    assert find({}, None, str(open_folder)) == str(machine)
    assert find({"FALLOW_CONFIG": "named.toml"}, None, str(open_folder)) == "named.toml"
    assert find({"FALLOW_CONFIG": "named.toml"}, "given.toml", str(open_folder)) == "given.toml"
    found = subprocess.run(
        [sys.executable, "-c", FINDS, str(ADA), str(open_folder)], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["None", str(machine)], "to know what it says is another matter"


FINDS = """
import os, sys
from fallow.engine.config.location import find
os.setresuid(*[int(sys.argv[1])] * 3)
print(find({}, None, sys.argv[2]), find({}, None, sys.argv[2], others=True))
"""
