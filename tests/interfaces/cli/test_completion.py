"""Real shells complete fallow's words: what is typed with Tab arrives whole at the program."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from fallow.interfaces.cli.command_words import BY_OPTION, all_commands
from fallow.interfaces.cli.completion import SHELLS
from fallow.interfaces.cli.shared_files import write_shared_files
from tests.conftest import Fallow
from tests.places import LIMIT_S
from tests.typed import READY, program_that_tells, shell

pytestmark = pytest.mark.more

BASH_COMPLETION = pathlib.Path("/usr/share/bash-completion/bash_completion")
MOST_CPU_S = 0.05
OFTEN = 20
LONG_GONE = 1 << 22  # one more than the kernel's last


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("prefix")
    write_shared_files(str(folder), "2026-11-16")
    return folder / "share"


@pytest.fixture
def environ(tmp_path: pathlib.Path, shared: pathlib.Path) -> dict[str, str]:
    """That of a person with completion where shells look for it, and with a fallow that tells what it was given."""
    for name in ("fallow", "fallowed-program"):
        program_that_tells(tmp_path / "bin" / name)
    claims = tmp_path / "claims"
    claims.mkdir()
    (claims / "protection-482913775").touch()
    (claims / "protection-$(touch ran)").touch()  # anybody can write there
    (tmp_path / "state" / "simulated").mkdir(parents=True)
    parked = ({"first": [os.getpid(), 1]}, {"first": [LONG_GONE, 1]}, {"first": ["$(touch ran)", 1]})
    (tmp_path / "state" / "simulated" / "parked").write_text("".join(f"{json.dumps(each)}\n" for each in parked))
    return {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "TERM": "vt100",
        "LANG": "C.UTF-8",
        "FALLOW_SIMULATE": "4xH100,2xT4",
        "FALLOW_CLAIM_DIR": str(claims),
        "FALLOW_STATE_DIR": str(tmp_path / "state"),
        "XDG_DATA_HOME": str(shared),
        "ZDOTDIR": str(tmp_path),
    }


def bash(environ: dict[str, str]) -> list[str]:
    if not BASH_COMPLETION.exists():
        pytest.skip("needs bash-completion")
    file = pathlib.Path(environ["HOME"]) / "rc"
    file.write_text(f"source {BASH_COMPLETION}\nPS1='{READY}'\nset +o history\n")
    return ["bash", "--noprofile", "--rcfile", str(file), "-i"]


def zsh(environ: dict[str, str]) -> list[str]:
    if shutil.which("zsh") is None:
        pytest.skip("needs zsh")
    home = pathlib.Path(environ["HOME"])
    fpath = f"fpath=({environ['XDG_DATA_HOME']}/zsh/site-functions $fpath)"
    (home / ".zshrc").write_text(
        f"{fpath}\nautoload -U compinit\ncompinit -u -d {home}/dump\nunsetopt PROMPT_SP\nPS1='{READY}'\n"
    )
    return ["zsh", "-d", "-i"]


def bare_bash(environ: dict[str, str]) -> list[str]:
    """One without bash-completion."""
    file = pathlib.Path(environ["HOME"]) / "rc"
    script = f"{environ['XDG_DATA_HOME']}/bash-completion/completions/fallow"
    file.write_text(f"source {script}\nPS1='{READY}'\nset +o history\n")
    return ["bash", "--noprofile", "--rcfile", str(file), "-i"]


TYPED = [
    ("fallow pi\t--ord\tb\t", "[pick][--order][best]"),
    ("fallow stop user:roo\t", "[stop][user:root]"),
    ("fallow --simulate 2xT4 burn --loa\tmat\t", "[--simulate][2xT4][burn][--load][matmul]"),
    ("fallow protect --rele\t48\t", "[protect][--release][482913775]"),
    ("fallow run -- fallowed-p\t", "[run][--][fallowed-program]"),
    ("fallow help rel\t", "[help][reload]"),
    ("fallow wake pid:\t", f"[wake][pid:{os.getpid()}]"),
    ("fallow resume stat\tml/db", "[resume][statefulset:ml/db]"),
]


@pytest.mark.parametrize("which", [bash, zsh])
def test_what_is_typed_with_tab_arrives_whole(which, environ: dict[str, str]) -> None:  # noqa: ANN001
    with shell(which(environ), environ) as typing:
        for line, arrives in TYPED:
            if line.startswith("fallow protect"):
                typing.type("cd ~ && fallow")
            assert typing.type(line).replace("=", "][") == arrives
    assert not (pathlib.Path(environ["HOME"]) / "ran").exists()


@pytest.mark.parametrize("which", [bash, bare_bash, zsh])
def test_a_file_with_a_hostile_name_is_a_file_and_is_not_run(which, environ: dict[str, str]) -> None:  # noqa: ANN001
    folder = pathlib.Path(environ["HOME"]) / "everybodys"
    folder.mkdir()
    (folder / "named$(touch ran)").touch()
    program_that_tells(folder / "tool$(touch ran)")
    with shell(which(environ), environ) as typing:
        typing.type(f"cd {folder} && fallow")
        assert typing.type("fallow run -- fallowed-program nam\t") == "[run][--][fallowed-program][named$(touch ran)]"
        assert typing.type("fallow run -- ./to\t") == "[run][--][./tool$(touch ran)]"
        assert typing.type("fallow up --config nam\t").replace("=", "][") == "[up][--config][named$(touch ran)]"
    assert not (folder / "ran").exists()


def answers(environ: dict[str, str], script: pathlib.Path, line: str, after: str = "") -> list[str]:
    """What bash would offer, with nothing on its PATH."""
    program = f"""
source '{script}'
compopt() {{ :; }}
COMP_LINE='{line}' COMP_POINT={len(line)} COMP_WORDS=({line}) COMP_CWORD={len(line.split()) - 1 + line.endswith(" ")}
_fallow
{after}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["/bin/bash", "--norc", "-c", program],
        env={**environ, "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("fallow pick --gpus 0,", ["0,all", *(f"0,{number}" for number in range(6))]),
        ("fallow stop 5", ["5"]),
        ("fallow protect --release ", ["482913775"]),
        ("fallow completion ", list(SHELLS)),
        ("fallow top --activity st", ["stuck"]),
        ("fallow compat gpu_m", ["gpu_mon"]),
        ("fallow pick --order=r", ["random"]),
        ("fallow nothing ", []),
        ("fallow wake pid:", [f"{os.getpid()}"]),  # the part behind the colon, as bash wants it
        ("fallow wake p", ["pid:", f"pid:{os.getpid()}"]),
        ("fallow stop pi", ["pid:"]),
        ("fallow resume r", ["replicaset:", "raycluster:", "rayjob:"]),
    ],
)
def test_what_is_here_is_offered_without_starting_a_program(
    environ: dict[str, str], shared: pathlib.Path, line: str, offered: list[str]
) -> None:
    script = shared / "bash-completion" / "completions" / "fallow"
    assert answers(environ, script, line) == offered


def test_a_key_costs_less_than_50_ms(environ: dict[str, str], shared: pathlib.Path) -> None:
    script = shared / "bash-completion" / "completions" / "fallow"
    again = f"for ((i = 1; i < {OFTEN}; i++)); do _fallow; done; times; COMPREPLY=()"
    for line in (
        "fallow stop ",
        "fallow stop unit:",
        "fallow stop user:",
        "fallow wake ",
        "fallow protect --release ",
    ):
        used = [
            float(m) * 60 + float(s)
            for m, s in re.findall(r"(\d+)m([\d.]+)s", " ".join(answers(environ, script, line, again)))
        ]
        assert len(used) == 4
        assert sum(used) / OFTEN < MOST_CPU_S


def test_fish_offers_words_with_their_sentences(environ: dict[str, str], shared: pathlib.Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("needs fish")
    script = shared / "fish" / "vendor_completions.d" / "fallow.fish"
    lines = (
        "fallow dem",
        "fallow pick --order ",
        "fallow stop 5",
        "fallow protect --release ",
        "fallow top --us",
        "fallow help rel",
        "fallow wake pid:",
    )
    asked = "; ".join(f"complete -C '{line}'; echo END" for line in lines)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {script}; {asked}"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert done.stderr == ""
    offered = [[line.partition("\t")[0] for line in part.splitlines()] for part in done.stdout.split("END\n")[:-1]]
    assert offered == [
        ["demo"],
        ["best", "index", "random"],
        ["5"],
        ["482913775"],
        ["--user"],
        ["reload"],
        ["pid:", f"pid:{os.getpid()}"],
    ]
    assert "show what fallow does" in done.stdout


@pytest.mark.parametrize("name", SHELLS)
def test_the_command_prints_what_the_package_has(fallow: Fallow, shared: pathlib.Path, name: str) -> None:
    done = fallow("completion", name)
    assert done.returncode == 0, done.stderr
    assert done.stdout in {path.read_text() for path in shared.rglob("*fallow*") if path.is_file()}


def test_every_value_that_is_described_by_its_option_belongs_to_an_option_that_exists() -> None:
    there = {
        (command.name, word.names[-1] if word.names else word.metavar)
        for command in all_commands()
        for word in (*command.options, *filter(None, [command.bare]))
    }
    assert set(BY_OPTION) <= there
