"""Reasons: a kind and its facts, and one sentence for each kind."""

import ast
import string
from collections.abc import Iterator

import pytest

from fallow.core.reasons import SENTENCES, Reason
from tests.places import REPOSITORY


def facts_of(kind: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(SENTENCES[kind]) if name}


def reasons_in_the_code() -> Iterator[tuple[str, str, set[str]]]:
    """Where a reason of a kind is made, the kind, and the names of its facts."""
    for path in sorted((REPOSITORY / "src").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "Reason":
                kind, place = call.args[0], f"{path.name}:{call.lineno}"
                if isinstance(kind, ast.Constant):
                    yield place, kind.value, {str(fact.arg) for fact in call.keywords}


def test_every_reason_in_the_code_has_a_sentence_and_its_facts() -> None:
    made = list(reasons_in_the_code())
    assert len(made) > 80
    assert [(place, kind) for place, kind, facts in made if kind not in SENTENCES or facts_of(kind) - facts] == []


def test_every_sentence_is_of_a_reason_in_the_code() -> None:
    by_name = {"idle", "stuck", "load_all", "load_any", "load_mean"}
    by_name |= {"no_process_there", "no_memory_there", "held_without_process"}
    by_name |= {"shows_work", "shows_no_work", "bus_unknown", "signals_unknown"}
    by_name |= {"condition_unknown", "condition_begins"}
    assert set(SENTENCES) - {kind for _, kind, _ in reasons_in_the_code()} == by_name


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        (Reason("idle", for_s=90.0, readings=Reason("quiet", gpu="3")), "idle for 1m30s: GPU 3: nothing ran"),
        (Reason("held_unseen", used_bytes=2**30), "1.0 GiB held by no visible process, nothing runs"),
        (Reason("no_process_ran", processes=1), "held by 1 process, none of which ran anything"),
        (Reason("no_process_ran", processes=2), "held by 2 processes, none of which ran anything"),
        (Reason("samples", mean=0.5, peak=1.0, seconds=13.7), "50% on average, 100% at most in the last 14 s"),
    ],
)
def test_facts_are_shown_as_their_names_say(reason: Reason, sentence: str) -> None:
    assert str(reason) == sentence


def test_programs_get_a_reason_within_a_reason_as_its_sentence() -> None:
    reason = Reason("idle", for_s=90.0, readings=Reason("quiet", gpu="3"))
    assert reason.plain_facts == {"for_s": 90.0, "readings": "GPU 3: nothing ran"}


def test_a_fact_that_a_sentence_needs_cannot_be_left_out() -> None:
    with pytest.raises(KeyError):
        str(Reason("idle"))


def test_facts_that_look_like_a_template_are_taken_as_they_are() -> None:
    assert str(Reason("protected_user", pid=1, user="{pid.__class__}")).startswith("pid 1 is {pid.__class__}")
