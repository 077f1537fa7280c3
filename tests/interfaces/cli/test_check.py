"""`fallow check` as a person uses it."""

import json
import os
import pathlib
import pwd
import re

import pytest

from tests.conftest import Fallow
from tests.engine.config.example import EXAMPLE
from tests.places import REPOSITORY


def written(fallow: Fallow, text: str) -> pathlib.Path:
    """A config that fallow uses if nobody names another."""
    file = fallow.home / "fallow.toml"
    file.write_text(text)
    fallow.environ["FALLOW_CONFIG"] = str(file)
    return file


def test_every_mistake_is_printed_with_its_line_and_then_their_number(fallow: Fallow) -> None:
    file = written(fallow, '[machine]\nevry = "1s"\n\n[page]\nlisten = "0.0.0.0:80"\n')
    done = fallow("check")
    assert (done.returncode, done.stderr) == (78, "")
    first, second, last = done.stdout.splitlines()
    assert first == f"{file}:2: machine.evry: there is no such key in [machine] (did you mean every?)"
    assert second.startswith(f"{file}:5: page.listen: 0.0.0.0:80 can be reached")
    assert last == "2 mistakes"


def test_a_config_without_a_mistake_is_summed_up(fallow: Fallow) -> None:
    file = written(fallow, EXAMPLE)
    done = fallow("check")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"{file}: no mistakes; 2 fillers (2 not enabled), 1 idle rule (only reports), 1 guard (1 not enabled), "
        "page on 127.0.0.1:8990, notices to no address, history kept for 90d, slurm cluster (not enabled)\n"
    )


def test_a_page_on_port_0_is_said_to_take_a_free_one(fallow: Fallow) -> None:
    written(fallow, '[page]\nlisten = "127.0.0.1:0"\n')
    assert "page on a free port of 127.0.0.1 (port 0), which `fallow up` names, " in fallow("check").stdout


def test_the_json_has_the_mistakes_and_what_was_found(fallow: Fallow) -> None:
    file = written(fallow, "[page]\nlisten = 3\n")
    done = fallow("check", "--json")
    assert done.returncode == 78
    assert json.loads(done.stdout) == {
        "version": 1,
        "file": str(file),
        "mistakes": [
            {
                "line": 2,
                "path": "page.listen",
                "sentence": "3 is not text",
                "suggestion": "write it in quotes",
            }
        ],
        "remarks": [],
        "found": None,
    }
    file.write_text(EXAMPLE)
    done = fallow("check", "--json", str(file))
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["mistakes"] == []
    assert found["found"] == {
        "fillers": 0,
        "idle_rules": 1,
        "idle_rules_that_act": 0,
        "guards": 0,
        "cluster": None,
        "cluster_rules": 0,
        "cluster_rules_that_act": 0,
        "notice_urls": 0,
        "notices_to_people": False,
        "page": "127.0.0.1:8990",
        "history_s": 7776000.0,
    }


CLUSTERED = """\
[[filler]]
name = "sweep"
user = "root"
command = "true"
[[filler]]
name = "off"
enabled = false
user = "root"
command = "true"
[cluster]
engine = "slurm"
prometheus = "http://127.0.0.1:9090"
[[cluster.idle]]
name = "reports"
idle_for = "1h"
[[cluster.idle]]
name = "acts"
idle_for = "2h"
act = true
"""


@pytest.mark.as_root
def test_fillers_and_cluster_are_summed_up(fallow: Fallow) -> None:
    file = written(fallow, CLUSTERED)
    done = fallow("check")
    assert done.returncode == 0, done.stdout
    assert "; 2 fillers (1 not enabled), no idle rule, no guard," in done.stdout
    assert done.stdout.endswith(", slurm cluster with 2 idle rules (1 of them may act)\n")
    found = json.loads(fallow("check", "--json").stdout)["found"]
    assert {name: found[name] for name in ("fillers", "cluster", "cluster_rules", "cluster_rules_that_act")} == {
        "fillers": 1,
        "cluster": "slurm",
        "cluster_rules": 2,
        "cluster_rules_that_act": 1,
    }
    file.write_text(CLUSTERED.replace('engine = "slurm"\nprom', 'engine = "slurm"\nenabled = false\nprom'))
    done = fallow("check")
    assert (done.returncode, done.stdout.endswith(", slurm cluster (not enabled)\n")) == (0, True)
    assert json.loads(fallow("check", "--json").stdout)["found"]["cluster"] is None


def test_every_field_of_the_json_is_in_the_reference(fallow: Fallow) -> None:
    text = (REPOSITORY / "docs" / "reference" / "json.md").read_text()
    file = written(fallow, "x = 1\n")
    wrong = json.loads(fallow("check", "--json").stdout)
    file.write_text("")
    right = json.loads(fallow("check", "--json").stdout)
    names = [*right, *right["found"], *wrong["mistakes"][0]]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_without_any_config_it_says_where_it_looked(fallow: Fallow) -> None:
    if pathlib.Path("/etc/fallow/fallow.toml").exists():
        pytest.skip("this machine has a config of its own")
    done = fallow("check")
    assert (done.returncode, done.stdout) == (2, "")
    home = pwd.getpwuid(0).pw_dir if os.geteuid() == 0 else fallow.home
    assert f"{home}/.config/fallow/fallow.toml" in done.stderr
    assert "to begin one: fallow check --example" in done.stderr


def test_a_file_that_is_not_there_is_a_mistake(fallow: Fallow) -> None:
    done = fallow("check", "/no/such/a file.toml")
    begin = "to begin one: fallow check --example > '/no/such/a file.toml'"
    told = f"/no/such/a file.toml: there is no such file ({begin})\n1 mistake\n"
    assert (done.returncode, done.stdout) == (78, told)


def test_the_example_is_printed_as_it_ships_and_passes_its_own_check(fallow: Fallow, tmp_path: pathlib.Path) -> None:
    done = fallow("check", "--example")
    assert (done.returncode, done.stdout) == (0, EXAMPLE)
    file = tmp_path / "printed.toml"
    file.write_text(done.stdout)
    assert fallow("check", str(file)).returncode == 0


def test_an_example_is_of_no_file(fallow: Fallow) -> None:
    assert fallow("check", "--example", "file.toml").returncode == 2


def test_the_reference_page_shows_what_really_happens(fallow: Fallow, tmp_path: pathlib.Path) -> None:
    page = (REPOSITORY / "docs" / "reference" / "config.md").read_text()
    shown = re.search(r"\$ fallow check fallow.toml\n(.*?)```", page, re.DOTALL)
    assert shown
    file = tmp_path / "fallow.toml"
    file.write_text(
        '[machine]\nevry = "1s"\n[[filler]]\nname = "a"\nuser = "nobdy"\ncommand = "cd /srv && ./embed > log"\n'
        'idle_for = "soon"\n[page]\nlisten = "0.0.0.0:8990"\nhosts = "https://gpu1:8990/"\n'
    )
    assert fallow("check", str(file)).stdout.replace(str(file), "fallow.toml") == shown[1]


UNITLESS = """\
[[idle]]
name = "forgotten"
idle_for = 30
stuck_for = "2.5"
warmup = 0
grace = 20
[[idle]]
name = "plain"
idle_for = "30m"
[history]
keep_for = 86400
"""


def test_a_time_without_a_unit_is_remarked_as_seconds_and_no_mistake(fallow: Fallow, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "fallow.toml"
    file.write_text(UNITLESS)
    file.chmod(0o600)
    done = fallow("check", str(file))
    assert done.returncode == 0, done.stdout
    assert done.stderr.splitlines() == [
        f'fallow: {file}:3: idle[1].idle_for: 30 without a unit means 30 seconds (write "30s", or "30m" for minutes)',
        f"fallow: {file}:4: idle[1].stuck_for: 2.5 without a unit means 2.5 seconds"
        ' (write "2.5s", or "2.5m" for minutes)',
        f"fallow: {file}:11: history.keep_for: 86400 without a unit means 86400 seconds"
        ' (write "86400s", or "86400m" for minutes)',
    ]
    assert [each["line"] for each in json.loads(fallow("check", "--json", str(file)).stdout)["remarks"]] == [3, 4, 11]
    file.write_text(f"{UNITLESS}moon = 1\n")
    wrong = fallow("check", str(file))
    assert (wrong.returncode, wrong.stderr.count("without a unit")) == (78, 3)
