"""Each kind of mistake is told in a sentence with its line, its path and what was probably meant."""

import pytest

from fallow.core.mistake import Mistake
from fallow.engine.config.load import understand
from tests.engine.config.example import mistakes

FILLER = '[[filler]]\nname = "a"\ncommand = "x"\n'
GUARD = '[[guard]]\nname = "g"\naction = "shutdown"\n'
PEOPLE = "[notices.people]\ntemplate = '"
IDLE = '[[idle]]\nname = "i"\nidle_for = "2h"\n'
CLUSTER = '[cluster]\nengine = "slurm"\nprometheus = "http://127.0.0.1:9090/"\n'


@pytest.mark.parametrize(
    ("text", "line", "where", "says"),
    [
        # Shapes and keys.
        ("[filler]\n", 1, "filler", "there may be several of it (write it as [[filler]])"),
        ("[[page]]\n", 1, "page", "it can be there only once (write it as [page])"),
        (
            "[cluster]\nidle = [1]\n",
            2,
            "cluster.idle[1]",
            "there may be several of it (write it as [[cluster.idle]])",
        ),
        ("\nfillers = 1\n", 2, "fillers", "there is no such section (did you mean filler?)"),
        ("every = 1\n", 1, "every", "there is no such section (it belongs under [machine] or [cluster])"),
        ("zzz = 1\n", 1, "zzz", "there are machine, filler, idle"),
        (IDLE + "exclude-user = 'alice'\n", 4, "idle[1].exclude-user", "(write users under [protect])"),
        (FILLER + "each = true\n", 4, "filler[1].each", "one process on each card"),
        (FILLER + "arm_above = 3\n", 4, "filler[1].arm_above", "(it belongs under [[guard]])"),
        (FILLER + "zzz = 3\n", 4, "filler[1].zzz", "there are name, command, enabled"),
        ("[[filler]]\ncommand = 'x'\n", 1, "filler[1].name", "it is missing (add it: the name"),
        (
            "[[idle]]\nname = 'i'\nstuck_for = '1h'\nunless = ['cpu:50']\n",
            4,
            "idle[1].unless",
            "conditions are about idle jobs, and this rule looks only for jobs that hang (add idle_for",
        ),
        (IDLE + "unless = ['cpu:50', 'htp:x']\n", 4, "idle[1].unless[2]", "(write http:http://127.0.0.1:8000/busy)"),
        (IDLE + "unless = ['users']\n", 4, "idle[1].unless[1]", "is not a condition of a job (write cpu:50"),
        (IDLE + "unless = 'cpu:50, jupyter'\n", 4, "idle[1].unless", '(write ["cpu:50", "jupyter"])'),
        (IDLE + "before_limit = '5s'\n", 4, "idle[1].before_limit", '(add before = "run:COMMAND", or leave it out)'),
        # A misspelt key is not missing too.
        ("[[filler]]\nnme = 'a'\ncommand = 'x'\n", 2, "filler[1].nme", "did you mean name?"),
        # What would protect nothing.
        ("[protect]\nunits = ['ollama']\n", 2, "protect.units[1]", "(write ollama.service)"),
        ("[protect]\nunits = ['ollama.timer']\n", 2, "protect.units[1]", "(write ollama.service)"),
        ("[protect]\nunits = ['*-ollama']\n", 2, "protect.units[1]", "(write *-ollama.service)"),
        ("[protect]\nnotebooks = ['thesis']\n", 2, "protect.notebooks[1]", "(write a whole path, as /home/*/thesis)"),
        # Values.
        ("[machine]\nprice = '2.50/d'\n", 2, "machine.price", "'2.50/d' is not a price (write it as 2.50"),
        ("[protect]\nat_most = '5'\n", 2, "protect.at_most", "(write 5, without quotes)"),
        (IDLE + "signal = 15\n", 4, "idle[1].signal", "'15' is not a signal (write its name, as TERM"),
        (IDLE + "action = []\n", 4, "idle[1].action", "it names nothing to do (name park or stop)"),
        (
            IDLE + "action = ['stop', 'park']\n",
            4,
            "idle[1].action",
            "a job is parked first, and stopped if that is not",
        ),
        (
            IDLE + "action = ['park', 'park']\n",
            4,
            "idle[1].action",
            "a job is parked first, and stopped if that is not",
        ),
        (IDLE + "action = 'parc'\n", 4, "idle[1].action", "what can be done with an idle job (did you mean park?)"),
        (IDLE + "action = 3\n", 4, "idle[1].action", '(write "stop", "park" or ["park", "stop"])'),
        (FILLER + "idle_for = '3x'\n", 4, "filler[1].idle_for", "'3x' is not a duration (write it as 90, 90s"),
        (FILLER + "idle_for = '9999d'\n", 4, "filler[1].idle_for", "too long (at most ten years)"),
        (FILLER + "suspend_within = 0\n", 4, "filler[1].suspend_within", "no time at all"),
        (FILLER + "yield = 'kil'\n", 4, "filler[1].yield", "'kil' is not known here (did you mean kill?)"),
        (FILLER + "together = 'yes'\n", 4, "filler[1].together", "neither true nor false"),
        (FILLER + "priority = 1000\n", 4, "filler[1].priority", "write a whole number from -100 to 100"),
        (FILLER + "gpus = '3-1'\n", 4, "filler[1].gpus", "'3-1' runs backwards (write it as 1-3)"),
        (FILLER + "gpus = 'first'\n", 4, "filler[1].gpus", "'first' names no GPU"),
        (FILLER + "cwd = 'here'\n", 4, "filler[1].cwd", "begin it with / or ~/"),
        (FILLER + "env = { 'A B' = 'c' }\n", 4, 'filler[1].env."A B"', "not the name of a variable"),
        (
            FILLER + "[filler.env]\nOK = 1\nCUDA_VISIBLE_DEVICES = '0'\n",
            6,
            "filler[1].env.CUDA_VISIBLE_DEVICES",
            "gpus",
        ),
        (FILLER + "env = 3\n", 4, "filler[1].env", "3 is not a table"),
        (FILLER + "ignore = [\n  'a',\n  3,\n]\n", 4, "filler[1].ignore[2]", "3 is not text (write it in quotes)"),
        ("[[filler]]\nname = 'a b'\ncommand = 'x'\n", 2, "filler[1].name", "'a b' is not a name"),
        ("[[filler]]\nname = 'a'\ncommand = \"x 'y\"\n", 3, "filler[1].command", "a quotation in the command"),
        ("[machine]\nprice = '2 EUR'\n", 2, "machine.price", 'it names a currency (write currency = "EUR"'),
        ("[machine]\nevery = '1m'\n", 2, "machine.every", "'1m' is too seldom (at most 15 s)"),
        ("[machine.prices]\nH100 = 3\nA100 = 'x'\n", 3, "machine.prices.A100", "'x' is not a price"),
        (GUARD + "idle_below = '0%'\n", 4, "guard[1].idle_below", "nothing is below 0 (write more than 0, as 1)"),
        (IDLE + "signal = 'TREM'\n", 4, "idle[1].signal", "'TREM' is not a signal"),
        (IDLE + "before = 'run:'\n", 4, "idle[1].before", "'run:' says no command (write it as run:COMMAND"),
        (IDLE + "warn_signal = 'KILL'\n", 4, "idle[1].warn_signal", "no process can catch SIGKILL (write one that"),
        (IDLE + "warn_signal = 'TERM'\n", 4, "idle[1].warn_signal", "SIGTERM already asks the job to end (name ano"),
        ("[[guard]]\nname = 'g'\naction = 'end'\n", 3, "guard[1].action", "'end' would do nothing here"),
        ("[[guard]]\nname = 'g'\naction = ['notify:x']\n", 3, "guard[1].action[1]", "says no address"),
        ("[notices.people]\nat_most = 0\n", 2, "notices.people.at_most", "write a whole number from 1"),
        ("[notices]\npeople = 3\n", 2, "notices.people", "3 is not a table"),
        ("[page]\nlisten = '8990'\n", 2, "page.listen", "'8990' has no address"),
        # Contradictions.
        (FILLER * 2, 5, "filler[2].name", "filler[1] is called 'a' too (give each a name of its own)"),
        (
            FILLER + "gpus = '0-3'\n" + FILLER.replace('"a"', '"b"') + "gpus = [3]\ntogether = true\npriority = 0\n",
            10,
            "filler[2].priority",
            "'a' has the same priority and shares cards",
        ),
        ("[[idle]]\nname = 'i'\n", 1, "idle[1]", "it looks for nothing"),
        ("[[idle]]\nname = 'i'\nstuck_for = '1h'\nwhen = 'wanted'\n", 4, "idle[1].when", "about idle jobs alone"),
        (
            "[[idle]]\nname = 'i'\nstuck_for = '1h'\naction = 'park'\n",
            4,
            "idle[1].action",
            "does not come to rest",
        ),
        (IDLE + "warn_before = '2h'\n", 4, "idle[1].warn_before", "before there is anything to warn of"),
        (GUARD + "idle_below = 11\n", 4, "guard[1].idle_below", "(at most arm_above, which is 10)"),
        ("[[guard]]\nname = 'g'\naction = [\n 'reboot',\n 'run:x']\n", 3, "guard[1].action[1]", "put it last"),
        ("[page]\nlisten = '0.0.0.0:80'\n", 2, "page.listen", "there is no token_file"),
        ("[page]\nhosts = 'gpu1.lab'\n", 2, "page.hosts", "there is no token_file"),
        # A cluster.
        ('[cluster]\nprometheus = "http://x"\n', 2, "cluster.prometheus", "no engine is named"),
        ('[cluster]\nengine = "slrum"\n', 2, "cluster.engine", "is not known here"),
        ('[cluster]\nengine = "slurm"\nprometheus = "x:9090"\n', 3, "cluster.prometheus", "not the address"),
        ('[cluster]\nengine = "slurm"\nprometheus = "http://u:p@x"\n', 3, "cluster.prometheus", "not the address"),
        (CLUSTER + 'kubeconfig = "/x"\n', 4, "cluster.kubeconfig", "about Kubernetes"),
        ('[cluster]\nengine = "slurm"\ntoken_file = "/x"\n', 3, "cluster.token_file", "no Prometheus"),
        (CLUSTER + "[cluster.idle]\n", 4, "cluster.idle", "there may be several of it"),
        (CLUSTER + '[[cluster.idle]]\nidle_for = "2h"\n', 4, "cluster.idle[1].name", "it is missing"),
        (CLUSTER + '[[cluster.idle]]\nname = "a"\n', 4, "cluster.idle[1].idle_for", "it is missing"),
        (
            CLUSTER + '[[cluster.idle]]\nname = "a"\nidle_for = "2h"\nusres = "b"\n',
            7,
            "cluster.idle[1].usres",
            "no such key",
        ),
        (
            CLUSTER + '[[cluster.idle]]\nname = "a"\nidle_for = "2h"\n' * 2,
            8,
            "cluster.idle[2].name",
            "is called 'a' too",
        ),
        (CLUSTER + '[[cluster.idle]]\nname = "a"\nidle_for = "45s"\n', 6, "cluster.idle[1].idle_for", "too seldom"),
        (
            CLUSTER + '[[cluster.idle]]\nname = "a"\nidle_for = "1h"\nwarn_before = "1h"\n',
            7,
            "cluster.idle[1].warn_before",
            "before there is anything",
        ),
        (
            CLUSTER + '[[cluster.idle]]\nname = "a"\nidle_for = "1h"\nnamespaces = "ml"\n',
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
        # No TOML.
        ("[page]\nlisten = localhost\n", 2, "", "this is not TOML (text stands in quotes)"),
        (FILLER + "together = True  # both\n", 4, "", "write true, in small letters"),
        ("[page]\n[page]\n", 2, "", "this table is there already"),
        ("[page]\nhosts = []\nhosts = []\n", 3, "", "this key is there already"),
        ("[page\n", 1, "", "this is not TOML: expected"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, line: int, where: str, says: str) -> None:
    (mistake,) = mistakes(text)
    assert (mistake.line, mistake.where) == (line, where)
    assert says in mistake.in_file("fallow.toml")
    assert mistake.in_file("fallow.toml").startswith(f"fallow.toml:{line}: ")


@pytest.mark.parametrize("text", [f"x = {'[' * 3000}", f"x = {'[' * 200}{']' * 200}", f"x = {'9' * 5000}"])
def test_text_that_wears_the_parser_out_is_refused_in_a_sentence(text: str) -> None:
    (mistake,) = mistakes(text)
    assert mistake.sentence


def test_all_mistakes_are_told_at_once_in_the_order_of_their_lines() -> None:
    found = mistakes(FILLER + "zz = 1\nidle_for = 'x'\n" + FILLER * 2 + "[page]\nlisten = '0.0.0.0:1'\n[guard]\n")
    assert [mistake.line for mistake in found] == [4, 5, 7, 10, 13, 14]


def test_a_mistake_in_one_section_hides_no_contradiction_among_the_others() -> None:
    found = mistakes(FILLER + "zz = 1\n" + FILLER.replace('"a"', '"b"') + FILLER.replace('"a"', '"b"'))
    assert [(mistake.line, mistake.where) for mistake in found] == [(4, "filler[1].zz"), (9, "filler[3].name")]
    assert "filler[2] is called 'b' too" in found[1].sentence


def test_a_mistake_in_one_rule_of_a_cluster_hides_none_in_the_others() -> None:
    found = mistakes("[[cluster.idle]]\nname = 'a'\nidle_for = 'x'\n[[cluster.idle]]\nname = 'b'\n")
    assert [(mistake.line, mistake.where) for mistake in found] == [
        (1, "cluster.idle"),
        (3, "cluster.idle[1].idle_for"),
        (4, "cluster.idle[2].idle_for"),
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[[cluster.idle]]\nname = 'a'\nidle_for = 90\n", "cluster.idle[1].idle_for"),
        ("[notices.people]\ntemplate = 'mailto://{user}@host'\nper = 60\n", "notices.people.per"),
    ],
)
def test_a_time_without_a_unit_is_pointed_out_in_nested_tables_too(text: str, where: str) -> None:
    remarks: list[Mistake] = []
    understand("[cluster]\nengine = 'slurm'\nprometheus = 'http://h'\n" + text, "here.toml", remark=remarks.append)
    assert [remark.where for remark in remarks] == [where]


def test_no_complaint_repeats_an_address_that_may_hold_a_password() -> None:
    for url in ("mailto:/ada:secret@host", "slack//secret", "secret"):
        (mistake,) = mistakes(f"[notices]\nurls = ['{url}']\n")
        assert "secret" not in mistake.in_file("fallow.toml")


def test_nothing_in_a_config_can_move_a_cursor() -> None:
    for mistake in mistakes('"\\u001b[2J" = 1\n[page]\n"a\\nb" = 1\nlisten = "\\u001b]0;x"\n'):
        assert mistake.in_file("fallow.toml").isprintable()
