"""Each kind of mistake is told in a sentence with its line, its path and what was probably meant."""

import pytest

from fallow.core.errors import ConfigWrong
from fallow.core.mistake import Mistake
from fallow.engine.config.load import understand
from tests.engine.config.example import mistakes

FILLER = '[[filler]]\nname = "a"\ncommand = "x"\n'
GUARD = '[[guard]]\nname = "g"\naction = "shutdown"\n'
PEOPLE = "[notices.people]\ntemplate = '"
IDLE = '[[idle]]\nname = "i"\nidle_for = "2h"\n'


@pytest.mark.parametrize(
    ("text", "line", "where", "says"),
    [
        # Shapes and keys.
        ("[filler]\n", 1, "filler", "there may be several of it (write it as [[filler]])"),
        ("[[page]]\n", 1, "page", "it can be there only once (write it as [page])"),
        ("page = 3\n", 1, "page", "3 is not a table (write it as [page])"),
        (
            "[fleet]\nhosts = ['gpu1']\n",
            2,
            "fleet.hosts[1]",
            "there may be several of it (write it as [[fleet.hosts]])",
        ),
        (
            "[cluster]\nidle = [1]\n",
            2,
            "cluster.idle[1]",
            "there may be several of it (write it as [[cluster.idle]])",
        ),
        ("filler = [1]\n", 1, "filler[1]", "there may be several of it"),
        ("\nfillers = 1\n", 2, "fillers", "there is no such section (did you mean filler?)"),
        ("every = 1\n", 1, "every", "there is no such section (it belongs under [machine], [cluster] or [fleet])"),
        ("zzz = 1\n", 1, "zzz", "there are machine, filler, idle"),
        (IDLE + "not_users = ['alice']\n", 4, "idle[1].not_users", "(write users under [protect])"),
        (IDLE + "exclude-user = 'alice'\n", 4, "idle[1].exclude-user", "(write users under [protect])"),
        (IDLE + "except = ['alice']\n", 4, "idle[1].except", "(write users under [protect])"),
        (IDLE + "ignore = ['alice']\n", 4, "idle[1].ignore", "(write users under [protect])"),
        (IDLE + "ignore_commands = ['x']\n", 4, "idle[1].ignore_commands", "(write commands under [protect])"),
        (FILLER + "each = true\n", 4, "filler[1].each", "one process on each card"),
        (FILLER + "idle_timeout = 3\n", 4, "filler[1].idle_timeout", "did you mean idle_for?"),
        (FILLER + "arm_above = 3\n", 4, "filler[1].arm_above", "(it belongs under [[guard]])"),
        (FILLER + "zzz = 3\n", 4, "filler[1].zzz", "there are name, command, enabled"),
        ("[[filler]]\ncommand = 'x'\n", 1, "filler[1].name", "it is missing (add it: the name"),
        (
            "[[idle]]\nname = 'i'\nstuck_for = '1h'\nunless = ['cpu:50']\n",
            4,
            "idle[1].unless",
            "conditions are about idle jobs, and this rule looks only for jobs that hang (add idle_for",
        ),
        (IDLE + "unless = 'cpu'\n", 4, "idle[1].unless", "'cpu' says only half of it (write cpu:50)"),
        (IDLE + "unless = ['cpu:50', 'htp:x']\n", 4, "idle[1].unless[2]", "(write http:http://127.0.0.1:8000/busy)"),
        (IDLE + "unless = ['users']\n", 4, "idle[1].unless[1]", "is not a condition of a job (write cpu:50"),
        (
            IDLE + "unless = ['http:http://example.org/']\n",
            4,
            "idle[1].unless[1]",
            "'example.org' is another machine, which is not asked (write http:http://127.0.0.1:8000/busy)",
        ),
        (IDLE + "unless = 'cpu:50, jupyter'\n", 4, "idle[1].unless", '(write ["cpu:50", "jupyter"])'),
        (GUARD + "unless = ['cpu:50, users']\n", 4, "guard[1].unless[1]", '(write ["cpu:50", "users"])'),
        (IDLE + "unless = ['not cpu:50']\n", 4, "idle[1].unless[1]", "(did you mean cpu:50?)"),
        (GUARD + "unless = ['CPU:20']\n", 4, "guard[1].unless[1]", "(did you mean cpu:20?)"),
        (GUARD + "unless = ['cpu:0']\n", 4, "guard[1].unless[1]", "is always so (write more than 0, as cpu:20)"),
        (
            "[[idle]]\nname = 'i'\nact = true\nstuck_for = '1h'\naction = 'park'\n",
            5,
            "idle[1].action",
            "a job that hangs does not come to rest, so it cannot be parked (write action",
        ),
        (IDLE + "before_limit = '5s'\n", 4, "idle[1].before_limit", '(add before = "run:COMMAND", or leave it out)'),
        (IDLE + "before_as_root = true\n", 4, "idle[1].before_as_root", "no command that it could be about"),
        # A misspelt key is not missing too.
        ("[[idle]]\nname = 'i'\nidle_fro = '20s'\n", 3, "idle[1].idle_fro", "did you mean idle_for?"),
        (
            "[[idle]]\nname = 'i'\nidle_fro = '20s'\nunless = ['jupyter']\n",
            3,
            "idle[1].idle_fro",
            "did you mean idle_for?",
        ),
        ("[[filler]]\nnme = 'a'\ncommand = 'x'\n", 2, "filler[1].nme", "did you mean name?"),
        # What would protect nothing.
        ("[protect]\nunits = ['ollama']\n", 2, "protect.units[1]", "(write ollama.service)"),
        ("[protect]\nunits = ['ollama.servce']\n", 2, "protect.units[1]", "(write ollama.service)"),
        ("[protect]\nunits = ['ollama.timer']\n", 2, "protect.units[1]", "(write ollama.service)"),
        ("[protect]\nunits = ['*-ollama']\n", 2, "protect.units[1]", "(write *-ollama.service)"),
        ("[protect]\nunits = ['foo bar']\n", 2, "protect.units[1]", "'foo bar' is not the name of a unit"),
        ("[protect]\nnotebooks = ['thesis']\n", 2, "protect.notebooks[1]", "(write a whole path, as /home/*/thesis)"),
        ("[protect]\nnotebooks = ['~/thesis']\n", 2, "protect.notebooks[1]", "is not a whole path"),
        # Values.
        ("[machine]\nprice = '2.50/d'\n", 2, "machine.price", "'2.50/d' is not a price (write it as 2.50"),
        ("[protect]\nat_most = '5'\n", 2, "protect.at_most", "(write 5, without quotes)"),
        (IDLE + "signal = 15\n", 4, "idle[1].signal", "'15' is not a signal (write \"TERM\")"),
        (IDLE + "signal = '15'\n", 4, "idle[1].signal", '(write "TERM")'),
        (IDLE + "signal = true\n", 4, "idle[1].signal", "true is not a signal; write its name, as TERM"),
        (IDLE + "action = []\n", 4, "idle[1].action", "it names nothing to do (name park or stop)"),
        (PEOPLE + "json://h/{name}'\n", 2, "notices.people.template", "(write {user}; braces"),
        (FILLER + "idle_for = '3x'\n", 4, "filler[1].idle_for", "'3x' is not a duration (write it as 90, 90s"),
        (FILLER + "idle_for = -3\n", 4, "filler[1].idle_for", "'-3' is not a duration"),
        (FILLER + "idle_for = true\n", 4, "filler[1].idle_for", "true is not a duration"),
        (FILLER + "idle_for = '9999d'\n", 4, "filler[1].idle_for", "too long (at most ten years)"),
        (FILLER + "suspend_within = 0\n", 4, "filler[1].suspend_within", "no time at all"),
        (FILLER + "yield = 'kil'\n", 4, "filler[1].yield", "'kil' is not known here (did you mean kill?)"),
        (FILLER + "yield = 7\n", 4, "filler[1].yield", "7 is not known here (write term, kill or suspend)"),
        (FILLER + "together = 'yes'\n", 4, "filler[1].together", "neither true nor false"),
        (FILLER + "priority = 1000\n", 4, "filler[1].priority", "write a whole number from -100 to 100"),
        (FILLER + "gpus = '3-1'\n", 4, "filler[1].gpus", "'3-1' runs backwards (write it as 1-3)"),
        (FILLER + "gpus = 'first'\n", 4, "filler[1].gpus", "'first' names no GPU"),
        (FILLER + "gpus = []\n", 4, "filler[1].gpus", "it names no GPU"),
        (FILLER + "gpus = -1\n", 4, "filler[1].gpus", "not a list of GPUs"),
        (
            FILLER + "between = '25:00-06:00'\n",
            4,
            "filler[1].between",
            "is not a range of hours (write it as 20:00-07:00)",
        ),
        (FILLER + "between = '06:00-06:00'\n", 4, "filler[1].between", "is not a range of hours"),
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
        (FILLER + "ignore = 3\n", 4, "filler[1].ignore", "3 is not text"),
        ("[[filler]]\nname = 'a b'\ncommand = 'x'\n", 2, "filler[1].name", "'a b' is not a name"),
        ("[[filler]]\nname = 'a'\ncommand = \"x 'y\"\n", 3, "filler[1].command", "a quotation in the command"),
        ("[[filler]]\nname = 'a'\ncommand = []\n", 3, "filler[1].command", "the command is empty"),
        ("[machine]\nprice = '2 EUR'\n", 2, "machine.price", 'it names a currency (write currency = "EUR"'),
        ("[machine]\nprice = -1\n", 2, "machine.price", "below zero"),
        ("[machine]\nevery = '1m'\n", 2, "machine.every", "'1m' is too seldom (at most 15 s)"),
        ("[machine]\nevery = '1ms'\n", 2, "machine.every", "too often (at least 0.05 s)"),
        ("[machine.prices]\nH100 = 3\nA100 = 'x'\n", 3, "machine.prices.A100", "'x' is not a price"),
        ("[[idle]]\nname = 'i'\nidle_for = 1\nidle_below = 200\n", 4, "idle[1].idle_below", "not a per cent"),
        (IDLE + "idle_below = 0\n", 4, "idle[1].idle_below", "nothing is below 0 (write more than 0, as 1)"),
        (GUARD + "idle_below = '0%'\n", 4, "guard[1].idle_below", "nothing is below 0 (write more than 0, as 1)"),
        (IDLE + "signal = 'TREM'\n", 4, "idle[1].signal", "'TREM' is not a signal"),
        (
            IDLE + "before = 'shutdown'\n",
            4,
            "idle[1].before",
            "'shutdown' is not a command to run (write it as run:CO",
        ),
        (IDLE + "before = 'run:'\n", 4, "idle[1].before", "'run:' says no command (write it as run:COMMAND"),
        (IDLE + "before = 7\n", 4, "idle[1].before", "7 is not a command to run"),
        (IDLE + "before_limit = 0\n", 4, "idle[1].before_limit", "no time at all"),
        (IDLE + "warn_signal = 'KILL'\n", 4, "idle[1].warn_signal", "no process can catch SIGKILL (write one that"),
        (IDLE + "warn_signal = 'TERM'\n", 4, "idle[1].warn_signal", "SIGTERM already asks the job to end (name ano"),
        ("[[guard]]\nname = 'g'\naction = 'end'\n", 3, "guard[1].action", "'end' would do nothing here"),
        ("[[guard]]\nname = 'g'\naction = ['signal']\n", 3, "guard[1].action[1]", "no process can be named"),
        ("[[guard]]\nname = 'g'\naction = ['notify:x']\n", 3, "guard[1].action[1]", "says no address"),
        ("[[guard]]\nname = 'g'\naction = []\n", 3, "guard[1].action", "the list is empty"),
        (GUARD + "unless = ['cpu']\n", 4, "guard[1].unless[1]", "'cpu' is not a condition"),
        (GUARD + "across = 'al'\n", 4, "guard[1].across", "did you mean all?"),
        ("[notices]\nevents = ['warnd']\n", 2, "notices.events[1]", "did you mean warned?"),
        (
            "[notices.people]\ntemplate = 'x'\n",
            2,
            "notices.people.template",
            "it is not an address for notices (write",
        ),
        (PEOPLE + "json://h/x'\n", 2, "notices.people.template", "it has no {user}, so everybody's notices"),
        (PEOPLE + "json://h/{user}/{home}'\n", 2, "notices.people.template", "a placeholder other than {user} and"),
        (
            "[notices.people]\ntemplat = 'x'\n",
            2,
            "notices.people.templat",
            "no such key in [notices.people] (did you mean",
        ),
        ("[notices.people]\nat_most = 0\n", 2, "notices.people.at_most", "write a whole number from 1"),
        ("[notices]\ntemplate = 'x'\n", 2, "notices.template", "it belongs under [notices.people]"),
        ("[notices]\npeople = 3\n", 2, "notices.people", "3 is not a table"),
        ("[page]\nlisten = '8990'\n", 2, "page.listen", "'8990' has no address"),
        ("[page]\nlisten = 'example:1'\n", 2, "page.listen", "not an address of this machine"),
        ("[history]\nkeep_for = 0\n", 2, "history.keep_for", "no time at all"),
        # Contradictions.
        (FILLER * 2, 5, "filler[2].name", "filler[1] is called 'a' too (give each a name of its own)"),
        (IDLE * 2, 5, "idle[2].name", "idle[1] is called 'i' too"),
        (GUARD * 2, 5, "guard[2].name", "guard[1] is called 'g' too"),
        (
            FILLER + "gpus = '0-3'\n" + FILLER.replace('"a"', '"b"') + "gpus = [3]\ntogether = true\npriority = 0\n",
            10,
            "filler[2].priority",
            "'a' has the same priority and shares cards",
        ),
        ("[[idle]]\nname = 'i'\n", 1, "idle[1]", "it looks for nothing"),
        ("[[idle]]\nname = 'i'\nstuck_for = '1h'\nwhen = 'wanted'\n", 4, "idle[1].when", "about idle jobs alone"),
        (IDLE + "when = 'wantd'\n", 4, "idle[1].when", "did you mean wanted?"),
        (IDLE + "warn_before = '2h'\n", 4, "idle[1].warn_before", "before there is anything to warn of"),
        (GUARD + "idle_below = 11\n", 4, "guard[1].idle_below", "(at most arm_above, which is 10)"),
        ("[[guard]]\nname = 'g'\naction = [\n 'reboot',\n 'run:x']\n", 3, "guard[1].action[1]", "put it last"),
        ("[page]\nlisten = '0.0.0.0:80'\n", 2, "page.listen", "there is no token_file"),
        ("[page]\nhosts = 'gpu1.lab'\n", 2, "page.hosts", "there is no token_file"),
        ("[page]\nlisten = '[::]:80'\n", 2, "page.listen", "can be reached from other machines"),
        # No TOML.
        ("[page]\nlisten = localhost\n", 2, "", "this is not TOML (text stands in quotes)"),
        (FILLER + "idle_for = 30s\n", 4, "", "text stands in quotes"),
        (FILLER + "together = True  # both\n", 4, "", "write true, in small letters"),
        ("[page]\n[page]\n", 2, "", "this table is there already"),
        ("[page]\nhosts = []\nhosts = []\n", 3, "", "this key is there already"),
        ("[page\n", 1, "", "this is not TOML: expected"),
        ("x = [\n\n\n", 1, "", "this is not TOML"),
        ("x = 1\0\n", 1, "", "this is not TOML"),
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


@pytest.mark.parametrize("unit", ["ollama.service", "kept-*", "*", "a@?.service", "b*.serv*", "c.d.service"])
def test_a_pattern_that_can_fit_a_service_is_right(unit: str) -> None:
    assert mistakes(f"[protect]\nunits = '{unit}'\nnotebooks = ['*/thesis', '/srv/x']\n") == ()


def test_a_semicolon_in_what_was_written_garbles_no_message() -> None:
    """F13: what is wrong and what to write are two values, and neither is cut out of a sentence."""
    (mistake,) = mistakes("[[idle]]\nname = 'i'\nidle_for = '1h; 2h'\n")
    assert mistake.sentence == "'1h; 2h' is not a duration"
    assert mistake.suggestion.startswith("write it as")


def test_all_mistakes_are_told_at_once_in_the_order_of_their_lines() -> None:
    found = mistakes(FILLER + "zz = 1\nidle_for = 'x'\n" + FILLER * 2 + "[page]\nlisten = '0.0.0.0:1'\n[guard]\n")
    assert [mistake.line for mistake in found] == [4, 5, 7, 10, 13, 14]


def test_a_misspelt_key_hides_nothing_that_is_wrong_with_the_right_one() -> None:
    found = mistakes(IDLE.replace("2h", "x") + "idle_fro = '20s'\n")
    assert [mistake.where for mistake in found] == ["idle[1].idle_for", "idle[1].idle_fro"]


def test_a_mistake_in_one_section_hides_no_contradiction_among_the_others() -> None:
    found = mistakes(FILLER + "zz = 1\n" + FILLER.replace('"a"', '"b"') + FILLER.replace('"a"', '"b"'))
    assert [(mistake.line, mistake.where) for mistake in found] == [(4, "filler[1].zz"), (9, "filler[3].name")]
    assert "filler[2] is called 'b' too" in found[1].sentence


def test_a_mistake_in_one_rule_of_a_cluster_hides_none_in_the_others() -> None:
    found = mistakes("[[cluster.idle]]\nname = 'a'\nidle_for = 'x'\n[[cluster.idle]]\nname = 'b'\n")
    assert [(mistake.line, mistake.where) for mistake in found] == [
        (1, "cluster.idle"),
        (3, "cluster.idle[1].idle_for"),
        (4, "cluster.idle[2]"),
    ]


def test_a_price_is_written_as_on_the_command_line() -> None:
    for price in ("2.50", "'2.50'", "'2.50/h'", "'2,50/h'"):
        assert understand(f"[machine]\nprice = {price}\n", "here.toml").machine.price == 2.5


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


def test_the_error_says_how_many_there_are_and_carries_its_exit_code() -> None:
    with pytest.raises(ConfigWrong, match=r"^here\.toml has 2 mistakes$") as caught:
        understand("a = 1\nb = 2\n", "here.toml")
    assert caught.value.exit_code == 78
