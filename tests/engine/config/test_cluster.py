"""What a person writes under [cluster] is read, and what contradicts itself is said with its line."""

import pytest

from fallow.engine.config.load import understand
from fallow.engine.config.model import Config
from fallow.policies.cluster_gate import Interactive
from tests.engine.config.example import mistakes

HEAD = '[cluster]\nengine = "slurm"\nprometheus = "http://127.0.0.1:9090/"\n'


def test_a_rule_is_read_with_its_defaults() -> None:
    text = f'{HEAD}[[cluster.idle]]\nname = "idle"\nact = true\nidle_for = "2h"\ninteractive = "first"\n'
    config = understand(text, "fallow.toml")
    rule = config.cluster.idle[0].rule(120.0)
    assert config.cluster.prometheus == "http://127.0.0.1:9090"
    assert rule.idle is not None
    assert (rule.idle.timeout_s, rule.idle.notice_s, rule.idle.grace_s) == (7200, 600, 60)
    assert (rule.acts, rule.interactive, rule.limit.most) == (True, Interactive.FIRST, 10)


def test_without_an_engine_no_cluster_is_looked_at() -> None:
    assert not Config().cluster.is_watched
    assert not understand(HEAD.replace("engine", "enabled = false\nengine"), "fallow.toml").cluster.is_watched


@pytest.mark.parametrize(
    ("text", "line", "where", "says"),
    [
        ('[cluster]\nprometheus = "http://x"\n', 2, "cluster.prometheus", "no engine is named"),
        ('[cluster]\nengine = "slrum"\n', 2, "cluster.engine", "is not known here"),
        ('[cluster]\nengine = "slurm"\nprometheus = "x:9090"\n', 3, "cluster.prometheus", "not the address"),
        ('[cluster]\nengine = "slurm"\nprometheus = "http://u:p@x"\n', 3, "cluster.prometheus", "not the address"),
        (HEAD + 'kubeconfig = "/x"\n', 4, "cluster.kubeconfig", "about Kubernetes"),
        ('[cluster]\nengine = "slurm"\ntoken_file = "/x"\n', 3, "cluster.token_file", "no Prometheus"),
        (HEAD + "[cluster.idle]\n", 4, "cluster.idle", "there may be several of it"),
        (HEAD + '[[cluster.idle]]\nidle_for = "2h"\n', 4, "cluster.idle[1].name", "it is missing"),
        (HEAD + '[[cluster.idle]]\nname = "a"\n', 4, "cluster.idle[1].idle_for", "it is missing"),
        (
            HEAD + '[[cluster.idle]]\nname = "a"\nidle_for = "2h"\nusres = "b"\n',
            7,
            "cluster.idle[1].usres",
            "no such key",
        ),
        (
            HEAD + '[[cluster.idle]]\nname = "a"\nidle_for = "2h"\n' * 2,
            8,
            "cluster.idle[2].name",
            "is called 'a' too",
        ),
        (HEAD + '[[cluster.idle]]\nname = "a"\nidle_for = "45s"\n', 6, "cluster.idle[1].idle_for", "too seldom"),
        (
            HEAD + '[[cluster.idle]]\nname = "a"\nidle_for = "1h"\nwarn_before = "1h"\n',
            7,
            "cluster.idle[1].warn_before",
            "before there is anything",
        ),
        (
            HEAD + '[[cluster.idle]]\nname = "a"\nidle_for = "1h"\nnamespaces = "ml"\n',
            7,
            "cluster.idle[1].namespaces",
            "Slurm has none",
        ),
        (
            '[cluster]\nengine = "kubernetes"\n[[cluster.idle]]\nname = "a"\nidle_for = "1h"\naction = "requeue"\n',
            6,
            "cluster.idle[1].action",
            "only Slurm",
        ),
        ('[cluster]\nengine = "kubernetes"\nbackground = "spare"\n', 3, "cluster.background", "only Slurm"),
        (
            '[cluster]\nengine = "slurm"\n[[cluster.idle]]\nname = "a"\nidle_for = "1h"\nact = true\n',
            6,
            "cluster.idle[1].act",
            "without metrics",
        ),
    ],
)
def test_a_mistake_is_said_with_its_line(text: str, line: int, where: str, says: str) -> None:
    found = mistakes(text)
    assert [(each.line, each.where) for each in found] == [(line, where)]
    assert says in found[0].sentence
    assert found[0].suggestion
