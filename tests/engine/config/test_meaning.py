"""What a config says is what the policies are given."""

import pytest
from pydantic import ValidationError

from fallow.core.actions import PowerOff, RunCommand
from fallow.core.fillers import Yield
from fallow.core.interval import Card
from fallow.engine.config.listen_address import Address, address
from fallow.engine.config.load import understand
from fallow.engine.config.model import Config
from fallow.engine.fill.filler import FillerSpec
from fallow.engine.machine.presence import PresenceRules
from fallow.policies.cluster_gate import Interactive
from fallow.policies.fill import FillRules
from fallow.policies.guard import Across, GuardRules
from fallow.policies.idle import IdleRules
from fallow.policies.stuck import StuckRules
from tests.engine.config.example import EXAMPLE


def config(text: str) -> Config:
    return understand(text, "fallow.toml")


def test_an_empty_file_only_watches_and_shows() -> None:
    empty = config("")
    assert (empty.fillers, empty.idle, empty.guards, empty.notices.urls) == ((), (), (), ())
    assert (empty.page.enabled, empty.page.listen) == (True, Address("127.0.0.1", 8990))
    assert (empty.machine.every, empty.history.keep_for) == (2.0, 90 * 86400)


def test_the_example_is_valid_and_does_nothing_until_it_is_changed() -> None:
    example = config(EXAMPLE)
    assert (example.fillers, example.guards) == ((), ())
    assert not any(rule.act for rule in example.idle)
    assert example.notices.urls == ()


def test_fillers_stand_in_the_order_in_which_they_get_cards() -> None:
    text = "".join(
        f"[[filler]]\nname = '{name}'\ncommand = 'x'\npriority = {priority}\nenabled = {enabled}\n"
        for name, priority, enabled in (("a", 0, "true"), ("b", 5, "true"), ("c", 5, "true"), ("d", 9, "false"))
    )
    assert [filler.name for filler in config(text).fillers] == ["b", "c", "a"]


def test_what_holds_for_all_terminals_holds_for_a_filler_unless_it_says_otherwise() -> None:
    found = config(
        "[terminals]\nusers = 'ignore'\nuser_idle = '10m'\nignore_user = 'ci'\n"
        "[[filler]]\nname = 'a'\ncommand = 'x'\n"
        "[[filler]]\nname = 'b'\ncommand = 'x'\nusers = 'yield'\nuser_idle = '20s'\nignore_user = ['bot']\n"
    )
    plain, own = (filler.people(found.terminals) for filler in found.fillers)
    assert plain == found.terminals
    assert (own.users, own.user_idle, own.ignore_user) == ("yield", 20.0, ("ci", "bot"))


def test_a_filler_is_what_fill_would_make_of_the_same_words() -> None:
    found = config(
        "[terminals]\nuser_idle = '1m'\n[[filler]]\nname = 'a'\ncommand = 'x {gpu}'\nyield = 'suspend'\ngpus = 0\n"
        "together = true\neager = true\nignore = 'mon'\nlog = '/l'\ncwd = '/c'\n"
        "between = '1:00-2:00'\n"
    )
    (filler,) = found.fillers
    assert filler.spec(found.terminals, 3.0) == FillerSpec(
        ("x", "{gpu}"),
        FillRules(30.0, Yield.SUSPEND, 2.0, 5.0, 3.0),
        PresenceRules(True, 60.0, (), (60, 120)),
        name="a",
        eager=True,
        ignore=("mon",),
        log="/l",
        cwd="/c",
    )
    plain = config("[[filler]]\nname = 'a'\ncommand = 'x'\n")
    assert plain.fillers[0].spec(plain.terminals, 3.0) == FillerSpec(("x",), name="a")


def test_an_idle_rule_becomes_the_rules_of_its_policies() -> None:
    (rule,) = config("[[idle]]\nname = 'i'\nidle_for = '2h'\nstuck_for = '10m'\nact = true\nsignal = 'int'\n").idle
    assert rule.idle_rules(3.0) == IdleRules(7200.0, 60.0, 3.0, 600.0, "INT", 60.0)
    assert rule.stuck_rules(3.0) == StuckRules(600.0, 60.0, 3.0, 300.0, "INT", True)
    assert rule.idle_below == 0.01


def test_a_guard_has_the_defaults_of_its_policy() -> None:
    (guard,) = config("[[guard]]\nname = 'g'\naction = ['run:make backup', 'shutdown']\n").guards
    assert guard.rules(3.0) == GuardRules((RunCommand("make backup"), PowerOff()))
    (guard,) = config("[[guard]]\nname = 'g'\naction = 'shutdown'\nacross = 'any'\narm_above = '50%'\n").guards
    assert (guard.rules(3.0).across, guard.rules(3.0).arm_above) == (Across.ANY, 0.5)


def card(name: str, uuid: str) -> Card:
    return Card(uuid, "0", name)


def test_a_card_costs_what_fits_it_best() -> None:
    machine = config("[machine]\nprice = 2\n[machine.prices]\nh100 = 4\n'H100 NVL' = 5\nGPU-1 = 1\n").machine
    assert machine.all_prices.of(card("NVIDIA H100 80GB", "GPU-2")) == 4
    assert machine.all_prices.of(card("NVIDIA H100 NVL", "GPU-2")) == 5
    assert machine.all_prices.of(card("NVIDIA H100 NVL", "GPU-1")) == 1
    assert machine.all_prices.of(card("NVIDIA T4", "GPU-2")) == 2
    assert config("").machine.all_prices.default is None


def test_a_config_cannot_be_changed() -> None:
    found = config("[[filler]]\nname = 'a'\ncommand = 'x'\n")
    with pytest.raises(ValidationError):
        found.filler = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        found.filler[0].env["A"] = "b"  # type: ignore[index]


def test_the_same_text_makes_equal_configs() -> None:
    assert config(EXAMPLE) == config(EXAMPLE)
    assert config(EXAMPLE) != config("")


CLUSTER = '[cluster]\nengine = "slurm"\nprometheus = "http://127.0.0.1:9090/"\n'


def test_a_rule_of_a_cluster_is_read_with_its_defaults() -> None:
    found = config(f'{CLUSTER}[[cluster.idle]]\nname = "idle"\nact = true\nidle_for = "2h"\ninteractive = "first"\n')
    rule = found.cluster.idle[0].rule(120.0)
    assert found.cluster.prometheus == "http://127.0.0.1:9090"
    assert rule.idle is not None
    assert (rule.idle.timeout_s, rule.idle.notice_s, rule.idle.grace_s) == (7200, 600, 60)
    assert (rule.acts, rule.interactive, rule.limit.most) == (True, Interactive.FIRST, 10)


def test_without_an_engine_no_cluster_is_looked_at() -> None:
    assert not Config().cluster.is_watched
    assert not config(CLUSTER.replace("engine", "enabled = false\nengine")).cluster.is_watched


@pytest.mark.parametrize(("text", "loopback"), [("[::1]:80", True), ("localhost:80", True), ("0.0.0.0:0", False)])
def test_where_the_page_listens_is_known_to_be_this_machines_own_or_not(text: str, loopback: bool) -> None:
    found = address(text)
    assert (str(found), found.is_loopback) == (text, loopback)
    assert found == Address(text.rpartition(":")[0].strip("[]"), int(text.rpartition(":")[2]))
