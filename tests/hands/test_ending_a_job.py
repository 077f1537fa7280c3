"""The whole tree of a job ends, and nothing else."""

import os
import signal

import pytest

from tests.hands.stage import job, play, wrapped

HARD_TO_END = ["ignores_term", "five_deep", "double_fork", "storm", "starts_anew", "hops"]


@pytest.mark.parametrize("name", HARD_TO_END)
def test_a_job_that_is_hard_to_end_leaves_nothing_behind(name: str) -> None:
    with play(wrapped("end", job(name))) as scene:
        assert scene.line() == "ready"
        scene.tell("end")
        said = scene.rest()  # comes back only when no process of the job is left
        assert "wrapper: survivors []" in said
        assert scene.code() == 124


def test_a_job_that_listens_is_only_asked() -> None:
    with play(wrapped("end", job("ends_on_term"))) as scene:
        assert scene.line() == "ready"
        scene.tell("end")
        assert scene.rest() == [
            "wrapper: asked 1",
            "wrapper: gone True",
            "wrapper: survivors []",
            "wrapper: ended Ended(code=3, by_signal=None)",
        ]


def test_a_stopped_job_is_continued_so_that_it_hears_the_question() -> None:
    with play(["sh", "-c", f"{' '.join(wrapped('end', job('ends_on_term')))} & wait"]) as scene:
        assert scene.line() == "ready"
