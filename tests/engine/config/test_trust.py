"""Root believes no config that others could have written; and where a config is looked for."""

import os
import pathlib
import pwd
import subprocess
import sys

import pytest

from fallow.core.errors import ConfigWrong
from fallow.engine.config.load import load
from fallow.engine.config.location import find, searched
from fallow.engine.config.model import Config
from tests.conftest import Fallow

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


@pytest.mark.as_root
class TestAsRoot:
    def test_a_file_that_others_may_write_is_refused_with_what_to_do(self, file: pathlib.Path) -> None:
        file.chmod(0o664)
        assert f"others may write to {file}" in refusal(file)
        assert f"(chmod go-w {file})" in refusal(file)

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


def test_what_is_no_plain_file_is_refused_and_not_waited_for(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "it is not a plain file" in refusal(tmp_path / "pipe")
    assert "it is a folder" in refusal(tmp_path)
    assert "there is no such file" in refusal(tmp_path / "nothing")


def test_what_is_no_text_is_refused_at_its_line(file: pathlib.Path) -> None:
    file.write_bytes(b"[page]\n# \xff\n")
    assert refusal(file).startswith(f"{file}:2: this is not UTF-8")


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
