"""Whatever is done to a config, its check does not crash, and names the lines that were changed and no others."""

import pathlib
import re
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from typing import get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fallow.core.errors import ConfigWrong
from fallow.engine.config.base import Section
from fallow.engine.config.cluster import ClusterIdle
from fallow.engine.config.load import load
from fallow.engine.config.model import SECTIONS, SEVERAL, NoticesToPeople
from fallow.engine.config.schema import json_schema
from tests.engine.config.example import EXAMPLE, LINES, KeyLine, key_lines, mistakes, modest

NEEDED = {
    *(("filler", "name"), ("filler", "command"), ("idle", "name"), ("guard", "name"), ("guard", "action")),
    ("cluster.idle", "name"),
}
PRICED = "machine.prices"  # its keys are names of cards, so any name will do
ALL = {**SECTIONS, "notices.people": NoticesToPeople, "cluster.idle": ClusterIdle}
NEVER_RIGHT = ["1979-05-27", "07:32:00", "nan", "[[1]]", "{ a = {} }", '"\\u0000"', "-1e300", f"0x{'f' * 400}"]
ANY_VALUE = st.one_of(
    st.integers(-3, 200).map(str),
    st.floats(0, 1e4, allow_nan=False).map(repr),
    st.sampled_from(["true", "false", "[]", "{}", '["a"]', "[0, 1]", '["0", 1]', *NEVER_RIGHT]),
    st.sampled_from(
        ["5%", "10M", "1h30m", " 2h ", "all", "0-3", "1:0", "~/x", "/x", "a b", "TERM", "Run:x", "cpu:5"]
    ).map(lambda word: f'"{word}"'),
)
EACH_KEY = st.sampled_from(key_lines())
CONTRADICTING = (
    "enabled",
    "stuck_for",
    "idle_for",
    "before",
    "engine",
)  # without these, keys that stay may contradict each other
INDEPENDENT = st.sampled_from([line for line in key_lines() if line.key not in CONTRADICTING])
VALIDATOR = Draft202012Validator(json_schema())


@st.composite
def changed(draw: st.DrawFn) -> tuple[str, dict[str, int]]:
    """The example with some keys deleted, renamed or given what they cannot be; and what is wrong on which line."""
    lines: list[str | None] = list(LINES)
    wrong: list[tuple[str, int]] = []
    for line in draw(st.lists(INDEPENDENT, min_size=1, max_size=5, unique_by=lambda line: line.at)):
        how = draw(st.sampled_from(["delete", "rename", "retype"]))
        was = LINES[line.at]
        if how == "delete":
            lines[line.at] = None
            wrong += [(line.key, line.header)] * ((line.section, line.key) in NEEDED)
        elif how == "rename" and line.section != PRICED:
            lines[line.at] = f"{line.key}_zz{was[len(line.key) :]}"
            wrong.append((f"{line.key}_zz", line.at))
        else:
            lines[line.at] = f"{line.key} = {draw(st.sampled_from(NEVER_RIGHT))}"
            wrong.append((line.key, line.at))
    left = [at for at, line in enumerate(lines) if line is not None]
    numbers = {(key, at): left.index(at) + 1 for key, at in wrong}
    text = "\n".join(line for line in lines if line is not None)
    return text, {f"{key} at {at}": number for (key, at), number in numbers.items()}


@given(changed())
@modest
def test_each_change_is_named_at_its_line_and_nothing_else_is(change: tuple[str, dict[str, int]]) -> None:
    text, wrong = change
    found = mistakes(text)
    assert {mistake.line for mistake in found} == set(wrong.values())
    for name, line in wrong.items():
        key = name.partition(" at ")[0].strip('"')
        assert any(key in mistake.where for mistake in found if mistake.line == line), (name, found)


@given(EACH_KEY, st.sampled_from(["-", "swap", "drop", "upper"]))
@modest
def test_a_key_that_is_nearly_right_is_answered_with_the_right_one(line: KeyLine, how: str) -> None:
    if line.section == PRICED or len(line.key) < 4:
        return
    key = line.key
    typo = {
        "-": key.replace("_", "-"),
        "swap": key[:1] + key[2] + key[1] + key[3:],
        "drop": key[:-1],
        "upper": key.upper(),
    }[how]
    if typo == key or typo in ALL[line.section].model_fields:
        return  # `users` without its end is a key itself
    text = "\n".join([*LINES[: line.at], typo + LINES[line.at][len(key) :], *LINES[line.at + 1 :]])
    (found,) = [mistake for mistake in mistakes(text) if mistake.line == line.at + 1]
    assert found.suggestion == f"did you mean {key}?"


@given(EACH_KEY, ANY_VALUE)
@modest
def test_the_schema_for_editors_refuses_nothing_that_the_check_accepts(line: KeyLine, value: str) -> None:
    text = "\n".join([*LINES[: line.at], f"{line.key} = {value}", *LINES[line.at + 1 :]])
    if not mistakes(text):
        assert [error.message for error in VALIDATOR.iter_errors(tomllib.loads(text))] == []


@pytest.mark.parametrize("host", ["::1", "[fe80::1]", "gpu1", "1:0", "gpu1:80"])
def test_a_host_is_an_address_only_as_a_whole_and_the_schema_agrees(host: str) -> None:
    text = f'[page]\ntoken_file = "/etc/fallow/token"\nhosts = ["{host}"]'
    assert bool(mistakes(text)) is (host in ("1:0", "gpu1:80"))
    assert mistakes(text) or VALIDATOR.is_valid(tomllib.loads(text))


@given(EACH_KEY)
@modest
def test_the_schema_refuses_keys_that_do_not_exist(line: KeyLine) -> None:
    if line.section == PRICED:
        return
    text = "\n".join([*LINES[: line.at], f"{line.key}_zz = 1", *LINES[line.at :]])
    assert not VALIDATOR.is_valid(tomllib.loads(text))


@given(st.text())
@modest
def test_no_text_crashes_the_check(text: str) -> None:
    count = text.count("\n") + 1
    assert all(mistake.line is None or 1 <= mistake.line <= count for mistake in mistakes(text))


@given(st.integers(0, len(EXAMPLE)), st.integers(0, 20), st.text(max_size=8))
@modest
def test_no_damage_to_a_config_crashes_the_check(start: int, length: int, inserted: str) -> None:
    text = EXAMPLE[:start] + inserted + EXAMPLE[start + length :]
    count = text.count("\n") + 1
    assert all(mistake.line is None or 1 <= mistake.line <= count for mistake in mistakes(text))


@given(st.binary(max_size=200))
@modest
def test_no_bytes_crash_the_check(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "fallow.toml"
        path.write_bytes(content)
        with suppress(ConfigWrong):
            load(str(path))


TABLES = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from([*SECTIONS, "x"]), TABLES)
@modest
def test_no_shape_of_a_section_crashes_the_check(section: str, shape: object) -> None:
    text = f"{section} = {as_toml(shape)}"
    tomllib.loads(text)
    assert all(mistake.line == 1 for mistake in mistakes(text))


def every_key(section: type[Section], headings: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each key of a section and of the sections within it, with the headings that it is under."""
    for name, field in section.model_fields.items():
        yield headings, field.alias or name
        several = get_origin(field.annotation) is tuple
        within = get_args(field.annotation)[0] if several else field.annotation
        if isinstance(within, type) and issubclass(within, Section):
            inner = f"{headings[-1].strip('[]')}.{name}"
            yield from every_key(within, (*headings, f"[[{inner}]]" if several else f"[{inner}]"))


KEYS = [
    found
    for name, section in SECTIONS.items()
    for found in every_key(section, (f"[[{name}]]" if name in SEVERAL else f"[{name}]",))
]
WRONG_SHAPES = ["[[1]]", "{ a = {} }", '[{ a = "x" }]', "[[]]", "1979-05-27", "[nan]", '[["x"], 3]', '["\\u0000"]']


@pytest.mark.more
@pytest.mark.parametrize("shape", WRONG_SHAPES)
def test_a_shape_that_no_key_takes_is_a_mistake_that_names_its_key(shape: str) -> None:
    for headings, key in KEYS:
        found = mistakes("\n".join([*headings, f"{key} = {shape}"]))
        where = f"{headings[-1].strip('[]')}.{key}"
        assert any(re.sub(r"\[\d+\]", "", mistake.where).startswith(where) for mistake in found), (where, found)


@given(st.sampled_from(KEYS), TABLES)
@modest
def test_no_shape_of_a_key_crashes_the_check(where: tuple[tuple[str, ...], str], shape: object) -> None:
    headings, key = where
    text = "\n".join([*headings, f"{key} = {as_toml(shape)}"])
    tomllib.loads(text)
    assert all(mistake.line is not None and mistake.line <= len(headings) + 1 for mistake in mistakes(text))


def as_toml(shape: object) -> str:
    match shape:
        case bool():
            return str(shape).lower()
        case str():
            escaped = "".join(f"\\U{ord(letter):08x}" for letter in shape if not 0xD800 <= ord(letter) < 0xE000)
            return f'"{escaped}"'
        case list():
            return f"[{', '.join(as_toml(item) for item in shape)}]"
        case dict():
            unique = {as_toml(key): as_toml(item) for key, item in shape.items()}
            return f"{{{', '.join(f'{key} = {item}' for key, item in unique.items())}}}"
        case _:
            return repr(shape)
