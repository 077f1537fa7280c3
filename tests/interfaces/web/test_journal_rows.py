"""What one stop consists of is one row that opens, with times and reasons; everything else is a row of its own."""

import pathlib
from datetime import UTC

from fallow.core.findings import Event
from fallow.core.reasons import Reason
from fallow.engine.history.journal import Journal
from fallow.interfaces.web.journal_rows import journal_rows
from tests.interfaces.web.boards import varied
from tests.interfaces.web.served import hall, served

JOB = "ada's job 7 (python)"


def line(number: int, finding: str, step: str = "", kind: str = "action", subject: str = JOB) -> Event:
    facts = (("step", step),) if step else ()
    return Event(number, 1_000.0 + number, kind, subject, finding, f"reason {number}", (), "", facts)


STOP = (
    line(1, "is idle", kind="verdict"),
    line(2, "warn that the job will be asked to end in 10s", "warn"),
    line(3, "told ada", kind="outcome"),
    line(4, "ask the job to end with SIGTERM", "ask"),
    line(5, "SIGTERM to 1 process", kind="outcome"),
    line(6, "kill what is left of the job", "kill"),
    line(7, "stopped", "stopped", kind="outcome"),
)


def rows(*events: Event) -> list[dict[str, object]]:
    return journal_rows(events[::-1], 1_100.0, UTC)


def test_all_steps_of_one_stop_are_one_row_with_their_times_and_reasons() -> None:
    (row,) = rows(*STOP)
    assert (row["what"], row["before"]) == ("stopped", "warned, asked to end, killed")
    assert row["because"] == "reason 4", "why it was asked to end, not why it was warned"
    lines = row["lines"]
    assert isinstance(lines, list)
    assert [each["because"] for each in lines] == [f"reason {number}" for number in range(1, 8)]
    assert [each["at"] for each in lines][:2] == ["00:16:41", "00:16:42"]
    (begun,) = rows(*STOP[:5])
    assert (begun["what"], begun["before"]) == ("asked to end", "warned"), "how far it has come"


def test_lines_that_stop_nobody_and_other_stops_are_rows_of_their_own_and_the_newest_is_first() -> None:
    found = rows(line(1, "starts", subject="filler a"), line(2, "yields", subject="filler a"), *STOP[:1])
    assert [row["lines"] for row in found] == [[], [], []]
    again = [line(event.id + 10, event.finding, event.step, event.kind) for event in STOP]
    other = line(9, "stopped", "stopped", "outcome", "bob's job 8 (sh)")
    assert [row["number"] for row in rows(*STOP, other, *again)] == [17, 9, 7]


def test_a_warning_that_was_cancelled_ends_a_row() -> None:
    found = rows(*STOP[:2], line(3, "cancel the warning", "cancel_warning"), line(4, "warn", "warn"))
    assert [row["what"] for row in found] == ["warn", "warning cancelled"]
    assert found[1]["because"] == "reason 3", "why it was cancelled"


def test_the_page_has_a_stop_as_one_row_and_what_others_wrote_in_it_is_text(tmp_path: pathlib.Path) -> None:
    journal = Journal(str(tmp_path / "state"), lambda: 1_794_000_000.0, print)
    name = "ada's job 7 (<script>alert(1)</script>)"
    journal.action(name, "ask the job to end with SIGTERM", Reason("by_hand", user="ada", step="ask"), ["pid:7@8"])
    journal.outcome(name, "stopped", Reason("told", sentence="<b>gone</b>", step="stopped"), ["pid:7@8"])
    for step, because in (("warn", "idle for 2m"), ("cancel_warning", "games protects GPU 1")):
        journal.action(JOB, step, Reason("told", sentence=because, step=step, rule="forgotten"), ["pid:9@8"])
    journal.close()
    with served(hall(varied), tmp_path) as site:
        text = site.ask("/").text
    assert text.count('<details class="steps"') == 2
    assert "stopped by hand by ada" in text
    assert "<script>alert" not in text
    assert "<b>gone" not in text
    assert 'games protects GPU 1 <span class="quiet">the warning was by rule</span> forgotten' in text
