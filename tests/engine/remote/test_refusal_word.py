"""Only the word itself says that a launch was refused, and everything else passes through unchanged."""

import os

from hypothesis import given
from hypothesis import strategies as st

from fallow.engine.remote.refusal_word import Copier, WordFilter, new_word


def filtered(word: str, chunks: list[bytes]) -> tuple[bytes, bool]:
    source = WordFilter(word)
    passed = b"".join(source.pass_on(chunk) for chunk in chunks)
    return passed + source.rest(), source.seen


@given(st.lists(st.binary(max_size=12) | st.sampled_from([b"ab", b"aab", b"a"]), max_size=12))
def test_a_stream_without_the_word_passes_whole_however_it_is_cut(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    if b"aabaac" not in whole:
        assert filtered("aabaac", chunks) == (whole, False)


@given(st.binary(max_size=20), st.integers(1, 8))
def test_the_word_is_found_however_it_is_cut_and_never_shown(before: bytes, size: int) -> None:
    word = new_word()
    text = before + word.encode() + b"\r\n"
    chunks = [text[at : at + size] for at in range(0, len(text), size)]
    assert filtered(word, chunks) == (before, True)


def test_what_is_in_the_pipe_is_copied_though_somebody_keeps_it_open() -> None:
    (source, kept_open), (seen, target) = os.pipe(), os.pipe()
    copier = Copier(source, target, WordFilter("word"))
    os.write(kept_open, b"said")
    copier.start()
    copier.finish()
    assert os.read(seen, 100) == b"said"
    for fd in (kept_open, seen, target):
        os.close(fd)


def test_two_launches_have_different_words() -> None:
    assert new_word() != new_word()
