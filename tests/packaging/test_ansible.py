"""The role of Ansible: read by Ansible itself, which is given no host."""

import os
import pathlib
import subprocess

import pytest
import yaml

from tests.places import BIN, LIMIT_S, REPOSITORY

pytestmark = pytest.mark.more

ROLE = REPOSITORY / "packaging/ansible/roles/fallow"


def test_ansible_understands_the_role_and_knows_its_variables(tmp_path: pathlib.Path) -> None:
    environ = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    words = ["ansible-playbook", "-i", "nowhere,", "--syntax-check", "packaging/ansible/fallow.yml"]
    done = subprocess.run(
        words, cwd=REPOSITORY, env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    tasks = yaml.safe_load((ROLE / "tasks/main.yml").read_text())
    handlers = {each["name"] for each in yaml.safe_load((ROLE / "handlers/main.yml").read_text())}
    assert {task["notify"] for task in tasks if "notify" in task} == handlers
    (config,) = (task for task in tasks if "validate" in task.get("ansible.builtin.copy", {}))
    assert config["ansible.builtin.copy"]["mode"] == "0600", "addresses of notices hold passwords"
    assert config["diff"] is False
    guide = (REPOSITORY / "docs/guides/container.md").read_text()
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
    assert [name for name in (*defaults, "fallow_wheel") if f"| `{name}` |" not in guide] == []
