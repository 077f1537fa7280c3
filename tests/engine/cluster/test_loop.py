"""The cluster's loop warns, asks and ends jobs that are known to be idle, and no others."""

import pathlib
from collections.abc import Iterator

import pytest

from fallow.core.findings import Outcome
from fallow.core.job import JobActivity
from fallow.core.protections import ClusterPart, Everything, OneClusterJob, OneGpu, OneUser, Protection, Target
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.cluster.ports import EngineLook
from fallow.policies.arbiter import ProtectRules, RateLimit
from fallow.policies.cluster_gate import Interactive
from fallow.policies.idle import When
from tests.engine.cluster.planned import EVERY_S, GIB, PlannedCluster, job, reading, rule

GONE = Unknown("no answer within 5 s")


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[PlannedCluster]:
    """An idle job, and a rule of 10 minutes, which warns 5 minutes before."""
    made = PlannedCluster(tmp_path)
    yield made
    made.journal.close()


def protection(target: Target) -> Protection:
    return Protection(5, target, 4e9, "my thesis", "ada")


def test_an_idle_job_is_warned_then_asked_then_ended_and_reported_gone(cluster: PlannedCluster) -> None:
    cluster.minutes(4.5)
    assert cluster.done == []
    cluster.minutes(1)
    assert cluster.done == ["warn 7"]
    cluster.minutes(5)
    assert cluster.done == ["warn 7", "ask 7"]
    cluster.minutes(1)
    assert cluster.done == ["warn 7", "ask 7", "kill 7"]
    assert cluster.look().jobs == ()
    kinds = [(event.kind, event.step) for event in cluster.events("slurm:7") if event.step]
    assert kinds == [("action", "warn"), ("action", "ask"), ("action", "kill"), ("outcome", "stopped")]
    actions = [event.finding for event in cluster.events("slurm:7") if event.kind == "action"]
    assert actions[1:] == ["way of Ask 7", "way of Kill 7"], "the journal says what the engine does"
    assert [notice.event for notice in cluster.notices] == ["warned", "stopped"]
    assert {notice.person for notice in cluster.notices} == {"ada"}
    assert "fallow protect slurm:7" in cluster.notices[0].advice
    assert "a notice goes to ada" in {event.because for event in cluster.events("slurm:7")}


def test_a_background_job_is_filled_and_judged_by_no_rule(tmp_path: pathlib.Path) -> None:
    cluster = PlannedCluster(tmp_path, background=frozenset({"scavenger"}))
    spare = {"labels": {"partition": "scavenger"}}
    cluster.engine.jobs = [job(7, **spare), job(8, first=2), job(9, first=4, no_way="it is suspended", **spare)]
    cluster.eyes.gpus = [reading(index, 0.0) for index in range(6)]
    cluster.minutes(60)
    assert cluster.done == ["warn 8", "ask 8", "kill 8"]
    assert [(view.rule, view.is_background) for view in map(cluster.view, (7, 9))] == [("", True), ("", False)]
    assert [notice.event for notice in cluster.notices] == ["warned", "stopped"]


def test_a_rule_only_reports_unless_it_says_act(tmp_path: pathlib.Path) -> None:
    cluster = PlannedCluster(tmp_path, rule(acts=False))
    board = cluster.minutes(60)
    assert cluster.done == []
    assert not board.acts
    assert [notice.event for notice in cluster.notices] == ["idle"]
    assert cluster.view(7).idle_s > 3000
    assert cluster.engine.looks == 120, "nobody is asked again for a report"


def test_a_changed_config_keeps_the_idle_time_of_jobs_whose_rule_it_does_not_change(cluster: PlannedCluster) -> None:
    cluster.engine.jobs = [job(7), job(8, gpus=1, first=2, user="bob")]
    cluster.eyes.gpus = [reading(index, 0.0) for index in range(3)]
    strict = rule(name="bobs", users=("bob",))
    cluster.loop.change([strict, rule()], ProtectRules())
    cluster.minutes(4)
    before_s = cluster.view(7).idle_s
    assert before_s > 180
    cluster.loop.change([replace(strict, idle_below=0.001), rule()], ProtectRules(frozenset({"carol"})))
    cluster.look()
    assert cluster.view(7).idle_s == before_s + EVERY_S
    assert cluster.view(8).idle_s == 0, "it was counted by another threshold"


def test_a_changed_config_keeps_what_a_rule_has_stopped_in_the_last_hour(cluster: PlannedCluster) -> None:
    few = rule(limit=RateLimit(1, 3600.0))
    cluster.engine.jobs = [job(7), job(8, gpus=1, first=2)]
    cluster.eyes.gpus = [reading(index, 0.0) for index in range(3)]
    cluster.loop.change([few], ProtectRules())
    cluster.minutes(12)
    assert [each for each in cluster.done if each.startswith("ask")] == ["ask 7"]
    cluster.loop.change([few], ProtectRules(frozenset({"carol"})))
    cluster.minutes(20)
    assert [each for each in cluster.done if each.startswith("ask")] == ["ask 7"]


def test_a_config_that_comes_while_jobs_are_asked_keeps_all_others_from_it(cluster: PlannedCluster) -> None:
    cluster.engine.jobs = [job(7), job(8, gpus=1, first=2, user="bob")]
    cluster.eyes.gpus = [reading(index, 0.0) for index in range(3)]
    cluster.engine.after["ask"] = lambda: cluster.loop.change([], ProtectRules())
    cluster.minutes(30)
    assert [each for each in cluster.done if each.startswith("ask")] == ["ask 7"]


def test_a_job_that_works_after_it_was_asked_is_not_ended(cluster: PlannedCluster) -> None:
    cluster.minutes(10.5)
    assert cluster.done[-1] == "ask 7"
    cluster.eyes.gpus = [reading(0, 0.0), reading(1, 0.3)]
    cluster.minutes(4)
    assert cluster.done == ["warn 7", "ask 7", "cancel 7"]


def test_a_job_that_was_asked_is_not_ended_while_its_metrics_are_away(cluster: PlannedCluster) -> None:
    cluster.minutes(10.5)
    cluster.eyes.gpus = [reading(0, 0.0)]
    cluster.minutes(60)
    assert cluster.done == ["warn 7", "ask 7"]


@pytest.mark.parametrize("what", ["metrics", "jobs", "nodes"])
def test_nothing_is_done_while_something_does_not_answer_and_counting_goes_on_after(
    cluster: PlannedCluster, what: str
) -> None:
    cluster.minutes(3)
    before_s = cluster.view(7).idle_s
    jobs = cluster.engine.jobs
    if what == "metrics":
        cluster.eyes.trouble = GONE
    elif what == "jobs":
        cluster.engine.jobs = GONE
    else:
        cluster.engine.nodes = GONE
    board = cluster.minutes(120)
    assert cluster.done == []
    assert len(board.troubles) == 1
    assert cluster.view(7).activity is JobActivity.UNKNOWN
    cluster.eyes.trouble, cluster.engine.jobs = None, jobs
    cluster.engine.nodes = None
    board = cluster.look()
    assert board.troubles == ()
    assert cluster.view(7).idle_s == pytest.approx(before_s + EVERY_S), "it goes on where it was"
    cluster.minutes(2)
    assert cluster.done == ["warn 7"]
    assert sum("nothing is stopped until" in sentence for sentence in cluster.said) == 1
    assert sum("answer again" in sentence for sentence in cluster.said) == 1


def test_a_job_that_holds_gpus_without_a_process_says_so(cluster: PlannedCluster) -> None:
    cluster.eyes.gpus = [reading(0, 0.0, processes=0), reading(1, 0.0, used_bytes=4 * 2**20)]
    cluster.look()
    assert cluster.view(7).reason.kind == "held_without_process"
    cluster.eyes.gpus = [reading(0, 0.0, processes=0), reading(1, 0.0, used_bytes=4 * GIB)]
    cluster.look()
    assert cluster.view(7).reason.kind == "and_more"


def test_a_job_that_asked_for_more_gpus_than_it_uses_is_reported_once_and_never_stopped(
    cluster: PlannedCluster,
) -> None:
    cluster.engine.jobs = [job(7, gpus=4)]
    cluster.eyes.gpus = [reading(0, 0.9), reading(1, 0.0), reading(2, 0.0), reading(3, 0.0)]
    cluster.minutes(60)
    assert cluster.done == []
    assert cluster.view(7).could_do_with == 1
    assert [event.reason for event in cluster.events("slurm:7")] == ["asked_for_more", ""]
    cluster.eyes.gpus = [reading(0, 0.9), reading(1, 0.5), reading(2, 0.0), reading(3, 0.0)]
    cluster.look()
    assert cluster.view(7).could_do_with == 2


@pytest.mark.parametrize(
    "target",
    [
        Everything(),
        OneUser("ada"),
        OneClusterJob("slurm:7"),
        ClusterPart("partition", "gpu"),
        ClusterPart("account", "lab"),
        ClusterPart("node", "n1"),
        OneGpu("GPU-n1-1"),
    ],
)
def test_a_protected_job_is_left_alone_and_its_warning_taken_back(cluster: PlannedCluster, target: Target) -> None:
    cluster.minutes(6)
    cluster.protections = [protection(target)]
    cluster.minutes(60)
    assert cluster.done == ["warn 7", "cancel 7"]
    assert "my thesis" in str(cluster.view(7).left_alone)


def test_a_protection_of_another_job_protects_nothing_else(cluster: PlannedCluster) -> None:
    others = (OneClusterJob("slurm:77"), OneUser("bob"), ClusterPart("partition", "cpu"), OneGpu("GPU-x"))
    cluster.protections = [protection(target) for target in others]
    cluster.minutes(6)
    assert cluster.done == ["warn 7"]


def test_a_protection_that_came_after_the_look_is_seen_before_the_action(cluster: PlannedCluster) -> None:
    look = cluster.engine.look

    def look_and_be_protected() -> EngineLook:
        if cluster.engine.looks % 2:  # it is asked again
            cluster.protections = [protection(Everything())]
        return look()

    cluster.minutes(5)
    cluster.engine.looks = 0
    cluster.engine.look = look_and_be_protected  # type: ignore[method-assign]
    cluster.look()
    assert cluster.done == []
    assert "protects" in str(cluster.view(7).refused)


@pytest.mark.parametrize(
    "protect",
    [ProtectRules(users=frozenset({"ada"})), ProtectRules(groups=("staff",)), ProtectRules(commands=("train*",))],
)
def test_what_the_config_protects_is_left_alone(tmp_path: pathlib.Path, protect: ProtectRules) -> None:
    cluster = PlannedCluster(tmp_path, protect=protect)
    cluster.minutes(60)
    assert cluster.done == []


def test_a_job_whose_people_opted_out_or_that_cannot_be_stopped_is_only_shown(cluster: PlannedCluster) -> None:
    opted = replace(job(7), opt_out=Reason("told", sentence="its comment says fallow=keep"))
    unable = job(8, node="n2", no_way="it has no owner that can be scaled")
    cluster.engine.jobs = [opted, unable]
    cluster.eyes.gpus += [reading(0, 0.0, node="n2"), reading(1, 0.0, node="n2")]
    cluster.minutes(60)
    assert cluster.done == []
    assert cluster.view(7).left_alone == "its comment says fallow=keep"
    assert cluster.view(8).refused == "it has no owner that can be scaled"
    assert [notice.event for notice in cluster.notices] == ["idle"]


def test_the_engine_is_asked_again_before_anything_is_done(cluster: PlannedCluster) -> None:
    cluster.minutes(5)
    changed = [
        GONE,
        [],
        [replace(job(7), started_wall_s=1.8e9)],
        [job(7, first=1)],
        [job(7, user="bob")],
        [replace(job(7), opt_out=Reason("told", sentence="no"))],
    ]
    for answer in changed:
        cluster.engine.looks, cluster.engine.again = 0, [answer]
        cluster.look()
        assert cluster.done == [], str(answer)
        assert cluster.view(7).refused
    cluster.look()
    assert cluster.done == ["warn 7"]
    assert cluster.view(7).refused is None


def test_an_action_that_fails_changes_nothing_and_is_tried_again_later(cluster: PlannedCluster) -> None:
    cluster.engine.outcome = Outcome(False, "Access/permission denied: fallow needs to be an operator")
    cluster.minutes(6)
    assert cluster.done == ["warn 7"]
    assert "operator" in str(cluster.view(7).refused)
    cluster.minutes(60)
    assert set(cluster.done) == {"warn 7"}, "nobody was warned, so nobody is asked"
    assert 5 <= len(cluster.done) <= 14
    cluster.engine.outcome = Outcome(True, "done")
    cluster.minutes(6)
    cluster.minutes(6)
    assert cluster.done[-2:] == ["ask 7", "kill 7"]


def test_a_dry_run_says_what_it_would_do_and_does_nothing(tmp_path: pathlib.Path) -> None:
    cluster = PlannedCluster(tmp_path, dry_run=True)
    cluster.minutes(60)
    assert cluster.done == []
    steps = [event.step for event in cluster.events("slurm:7") if event.step]
    assert steps == ["warn", "ask", "kill"]
    assert any("would stop" in sentence for sentence in cluster.said)


def test_a_rule_stops_at_most_so_many_in_its_time_and_interactive_jobs_first(tmp_path: pathlib.Path) -> None:
    limited = rule(limit=RateLimit(1, 3600.0), interactive=Interactive.FIRST)
    cluster = PlannedCluster(tmp_path, limited)
    cluster.engine.jobs = [job(7), job(8, first=2, interactive=True)]
    cluster.eyes.gpus = [reading(index, 0.0) for index in range(4)]
    cluster.minutes(30)
    assert cluster.done == ["warn 8", "warn 7", "ask 8", "kill 8"]
    assert "may be" in str(cluster.view(7).refused)
    cluster.minutes(45)
    assert cluster.done[4:] == ["ask 7", "kill 7"]


def test_a_job_is_left_alone_in_its_first_hours_and_if_its_start_is_not_known(tmp_path: pathlib.Path) -> None:
    cluster = PlannedCluster(tmp_path, rule(not_before_s=7200.0, interactive_not_before_s=0.0))
    young = cluster.clock.wall_s()
    cluster.engine.jobs = [
        job(7, started_wall_s=young),
        job(8, first=2, started_wall_s=Unknown("no start")),
        job(9, node="n2", started_wall_s=young, interactive=True),
    ]
    cluster.eyes.gpus = [reading(index, 0.0, node=node) for node in ("n1", "n2") for index in range(4)]
    cluster.minutes(115)
    assert {each for each in cluster.done if not each.endswith("9")} == set()
    cluster.minutes(30)
    assert [each for each in cluster.done if each.endswith("7")] == ["warn 7", "ask 7", "kill 7"]
    assert not any(each.endswith("8") for each in cluster.done)


def test_with_wanted_nothing_begins_while_no_job_waits(tmp_path: pathlib.Path) -> None:
    cluster = PlannedCluster(tmp_path, rule(when=When.WANTED))
    cluster.minutes(30)
    cluster.engine.pending = GONE
    cluster.minutes(30)
    assert cluster.done == []
    cluster.engine.pending = 8
    cluster.minutes(1)
    assert cluster.done == ["warn 7"]


def test_a_job_that_comes_back_after_it_was_stopped_is_only_reported(cluster: PlannedCluster) -> None:
    cluster.minutes(12)
    assert cluster.done == ["warn 7", "ask 7", "kill 7"]
    cluster.engine.jobs = [replace(job(7), started_wall_s=1.8e9)]
    cluster.minutes(60)
    assert cluster.done == ["warn 7", "ask 7", "kill 7"]
    assert "came back" in str(cluster.view(7).refused)
    assert any("came back" in notice.text for notice in cluster.notices)


def test_a_job_that_gets_more_gpus_or_starts_again_is_counted_from_zero(cluster: PlannedCluster) -> None:
    cluster.eyes.gpus = [reading(index, 0.0) for index in range(4)]
    cluster.minutes(6)
    cluster.engine.jobs = [job(7, gpus=3)]
    cluster.look()
    assert cluster.done == ["warn 7", "cancel 7"]
    assert cluster.view(7).idle_s == 0


def test_an_engine_or_metrics_that_break_are_a_trouble_and_stop_nothing(cluster: PlannedCluster) -> None:
    cluster.minutes(4.5)

    def broken() -> None:
        raise ValueError("\x1b[31mred")

    look, read = cluster.engine.look, cluster.eyes.read
    cluster.engine.look = broken  # type: ignore[method-assign,assignment]
    assert any("ValueError" in trouble for trouble in cluster.look().troubles)
    cluster.engine.look = look  # type: ignore[method-assign]
    cluster.eyes.read = broken  # type: ignore[method-assign,assignment]
    board = cluster.minutes(30)
    assert all(trouble.isprintable() for trouble in board.troubles)
    assert cluster.done == []
    cluster.eyes.read = read  # type: ignore[method-assign]
    cluster.minutes(1)
    assert cluster.done == ["warn 7"]


def test_a_loop_that_ends_takes_its_warnings_back(cluster: PlannedCluster) -> None:
    cluster.minutes(6)
    cluster.loop._judge.take_warnings_back()
    assert cluster.done == ["warn 7", "cancel 7"]


def test_nothing_is_done_by_readings_that_are_old_because_the_engine_was_slow(cluster: PlannedCluster) -> None:
    """What the metrics said some minutes ago stops no job: somebody may have made the engine slow meanwhile."""
    cluster.minutes(5)
    quick = cluster.engine.look

    def slow() -> EngineLook:
        cluster.clock.now_s += 100.0
        return quick()

    cluster.engine.look = slow  # type: ignore[method-assign]
    cluster.look()
    assert cluster.done == []
    assert "was read 3m20s ago" in str(cluster.view(7).refused)
    cluster.engine.look = quick  # type: ignore[method-assign]
    cluster.look(2)
    assert cluster.done == ["warn 7"]
