"""`--on` means hosts and nothing else: no name becomes an option of ssh or a part of a command."""

import pathlib
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.core.errors import FallowError, NothingFound, WrongUsage
from fallow.engine.remote.hosts import hosts_meant, is_host, known_hosts
from fallow.engine.remote.ssh import config_of, ssh_for

KNOWN = {"FALLOW_HOSTS": "gpu1, gpu2 gpu10 login"}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("anything", ["anything"]),
        ("gpu1,gpu2,gpu1", ["gpu1", "gpu2"]),
        ("alice@gpu7.example.org", ["alice@gpu7.example.org"]),
        ("gpu[1-3]", ["gpu1", "gpu2", "gpu3"]),
        ("gpu[08-10,12]", ["gpu08", "gpu09", "gpu10", "gpu12"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("gpu*", ["gpu1", "gpu2", "gpu10"]),
        ("gpu?", ["gpu1", "gpu2"]),
        ("login,gpu1*", ["login", "gpu1", "gpu10"]),
        ("::1", ["::1"]),
    ],
)
def test_names_brackets_and_patterns_mean_hosts(text: str, meant: list[str]) -> None:
    assert hosts_meant(text, KNOWN) == meant


@pytest.mark.parametrize(
    "text",
    [
        *(
            "-oProxyCommand=reboot",
            "-l,root",
            "gpu1;reboot",
            "$(reboot)",
            "a b",
            "gpu1\nreboot",
            "@gpu1",
            "-x@gpu1",
            "-*",
        ),
        *("gpu[4-1]", "gpu[0-999999]", "gpu[1-256],n[1-9]", "", ",", "x" * 300, "`id`", "gpu[*]"),
    ],
)
def test_what_could_be_anything_but_a_host_is_refused(text: str) -> None:
    with pytest.raises(WrongUsage):
        hosts_meant(text, KNOWN)


@given(st.text(max_size=60))
def test_whatever_is_written_only_names_of_hosts_come_out(text: str) -> None:
    try:
        found = hosts_meant(text, KNOWN)
    except FallowError:
        return
    assert all(
        is_host(name) and not name.startswith("-") and shlex.quote(name) in (name, f"'{name}'") for name in found
    )


def test_a_pattern_without_a_match_names_the_hosts_that_are_known() -> None:
    with pytest.raises(NothingFound, match="known are gpu1"):
        hosts_meant("zzz*", KNOWN)
    with pytest.raises(NothingFound, match="FALLOW_HOSTS"):
        hosts_meant("gpu*", {"FALLOW_HOSTS": ""})


def test_patterns_find_the_names_of_the_ssh_config_and_of_what_it_includes(tmp_path: pathlib.Path) -> None:
    (tmp_path / "more").write_text("Host gpu3\n  Port 1\n")
    config = tmp_path / "config"
    config.write_text(
        f"Include {tmp_path}/mo*\nInclude {config}\nHost gpu1 gpu2 *.example !gpu9\nhost = quoted\nHostName gpu8\n"
        f"Host -oProxyCommand=x\nMatch host gpu7\n"
    )
    assert known_hosts({"FALLOW_SSH": f"ssh -F {config}"}) == ["gpu3", "gpu1", "gpu2", "quoted"]


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\0", codec="utf-8")), min_size=1, max_size=5))
def test_a_shell_there_reads_the_very_words(words: list[str]) -> None:
    *_, dashes, host, line = ssh_for({}).command("gpu1", words)
    assert (dashes, host) == ("--", "gpu1")
    assert shlex.split(line) == ["exec", "fallow", *words]


def test_the_home_there_can_be_named() -> None:
    assert ssh_for({"FALLOW_REMOTE": "~/my bin/fallow"}).command("h", ["status"])[-1] == (
        "exec ~/'my bin/fallow' status"
    )


@pytest.mark.parametrize(
    ("words", "config"), [(["ssh", "-F", "a"], "a"), (["ssh", "-Fb"], "b"), (["ssh", "-F"], None)]
)
def test_the_config_that_ssh_is_given_is_the_one_that_is_read(words: list[str], config: str | None) -> None:
    assert config_of(words) == config
