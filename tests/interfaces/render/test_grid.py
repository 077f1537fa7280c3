"""Columns of text: aligned, folded to the width, nothing lost, whatever the letters."""

import io

from hypothesis import given
from hypothesis import strategies as st

from fallow.interfaces.render.grid import Column, Screen, cells, folded_to

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=60)


@given(text=st.lists(WORDS, max_size=4).map("\n".join), width=st.integers(2, 40), cuts=st.booleans())
def test_folded_lines_fit_and_lose_no_letter(text: str, width: int, cuts: bool) -> None:
    lines = list(folded_to(text, width, cuts_paths=cuts))
    assert all(cells(line) <= width for line in lines if cuts or "/" not in line)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "").replace("\n", "")


@given(rows=st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5))
def test_the_second_column_begins_at_the_same_place_in_every_line(rows: list[tuple[str, str]]) -> None:
    columns = [Column("first"), Column("|second")]
    lines = Screen(io.StringIO(), {}).table(columns, [[one, f"|{two}"] for one, two in rows])
    begins = {
        cells(line[: line.rindex("|", 0, len(line) - len(tail.rstrip()))]) for line, tail in places(lines, rows)
    }
    assert len(begins) == 1


def places(lines: list[str], rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each line with what stands behind its bar."""
    return list(zip(lines, ["second", *(two for _, two in rows)], strict=True))


def test_a_path_that_is_longer_than_the_line_stays_whole_with_the_spaces_in_its_quotes() -> None:
    lines = list(folded_to("it is in '/a path/of some length', or in /tmp/another-one: see there", 12))
    assert lines == ["it is in", "'/a path/of some length',", "or in", "/tmp/another-one:", "see there"]


def test_a_path_is_cut_where_another_column_stands_beside_it() -> None:
    columns = [Column("where", folds=True), Column("what", folds=True)]
    lines = Screen(io.StringIO(), {"COLUMNS": "26"}).table(columns, [["/a/folder/of/length", "/a/file/of/length"]])
    assert [line[14:] for line in lines] == ["what", "/a/file/of/length", ""]


def test_a_story_that_does_not_fit_is_folded_and_the_rest_is_not() -> None:
    columns = [Column("GPU"), Column("util", right=True), Column("why", folds=True)]
    lines = Screen(io.StringIO(), {"COLUMNS": "24"}).table(
        columns, [["0", "7%", "somebody holds it"], ["10", "100%", "x"]]
    )
    assert lines == [
        "GPU  util  why",
        "0      7%  somebody",
        "           holds it",
        "10   100%  x",
    ]
