"""Each key of a TOML file has its line, in every style of TOML."""

import tomllib

import pytest

from fallow.engine.config.toml_lines import Path, line_of, lines_of

DOCUMENT = '''\
# [decoy]
plain = 1
a.b . "c d" = 2 # x = 1
list = [ # ]
  "x = 1",
  [3, 4],
]
long = """
[decoy]
x = 1""\\"
"""
'literal\\' = \'\'\'
x = 1\'\'\'

[ table . "inner.most" ]
inline = { x = { y = 1 }, z = [ { w = 1 } ] }
[[several]]
name = 1
[several.part]
key = 1
[[several]]
[[several.deep]]
key = 1
[[several.deep]]
key = 1
[table]
late = 1
'''
INNER = ("table", "inner.most")
LINES: dict[Path, int] = {
    ("plain",): 2,
    ("a",): 3,
    ("a", "b"): 3,
    ("a", "b", "c d"): 3,
    ("list",): 4,
    ("long",): 8,
    ("literal\\",): 12,
    ("table",): 15,
    INNER: 15,
    **{(*INNER, "inline", *path): 16 for path in ((), ("x",), ("x", "y"), ("z",))},
    ("several",): 17,
    ("several", 0): 17,
    ("several", 0, "name"): 18,
    ("several", 0, "part"): 19,
    ("several", 0, "part", "key"): 20,
    ("several", 1): 21,
    ("several", 1, "deep"): 22,
    ("several", 1, "deep", 0): 22,
    ("several", 1, "deep", 0, "key"): 23,
    ("several", 1, "deep", 1): 24,
    ("several", 1, "deep", 1, "key"): 25,
    ("table", "late"): 27,
}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_each_key_and_table_is_found_at_its_line_and_nothing_else_is(newline: str) -> None:
    assert tomllib.loads(DOCUMENT)
    assert lines_of(DOCUMENT.replace("\n", newline)) == LINES


def test_what_has_no_line_is_at_what_is_around_it() -> None:
    assert line_of(LINES, ("list", 1, 0)) == 4
    assert line_of(LINES, ("several", 1, "name")) == 21
    assert line_of(LINES, ("nowhere",)) == 1
