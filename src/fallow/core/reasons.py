"""Why something was found, decided, done or refused: a kind from a closed set, and its facts.

Programs read the kind and the facts. People read the sentence, which is made here and nowhere else, when it is shown.
The kinds are keys of a dictionary: an enumeration as long as this one would delay the start of every command by 2 ms.
"""

from collections.abc import Callable, Mapping

from fallow.core.units import bytes_for_people, duration_for_people

SENTENCES: Mapping[str, str] = {
    # What a GPU does.
    "free": "nobody holds it",
    "filled": "filled with {program}, which leaves when the GPU is needed",
    "samples": "{mean:.0%} on average, {peak:.0%} at most in the last {seconds:.0f} s",
    "utilization": "{load:.0%} utilization now",
    "process_ran": "pid {pid} ran {load:.0%} of the time",
    "sm_active": "{load:.1%} of its multiprocessors were active",
    "ran_unseen": "{load:.0%} utilization by no visible process",
    "held_unseen": "{used_bytes} held by no visible process, nothing runs",
    "nothing_ran": "held by {processes}, nothing ran in the last {seconds:.0f} s",
    "no_process_ran": "held by {processes}, none of which ran anything",
    "no_sm_active": "held by {processes}, no multiprocessor was active",
    "claimed": "{claim}, which has no process on the GPU",
    "settling": "{found}; idle once that lasts for {after_s}",
    "came": "pid {pid} came to it just now",
    "just_claimed": "{found} yet; idle once that lasts for {after_s}",
    "suspect": "looks stuck: {found}",
    "trouble": "{trouble}",
    "processes_unknown": "its processes are unknown: {why}",
    "memory_unknown": "its memory is unknown: {why}",
    "utilization_unknown": "its utilization is unknown: {why}",
    "activity_unknown": "held by {processes}; whether anything ran is unknown: {why}",
    "claim_unknown": "whether somebody has claimed it cannot be told",
    "not_judged": "not judged",
    "card_lost": "GPU {gpu} cannot be used or judged: {trouble}",
    "card_back": "GPU {gpu} is back",
    # What a job does on its GPUs, and whether it hangs.
    "job_ran": "GPU {gpu}: {whose} ran {load:.1%} of the time",
    "job_idle": "GPU {gpu}: {whose} ran {load:.1%} of the time, below {below:.1%}",
    "job_idle_beside": "{found}, with {others} more on it that may hide its work: believed after {after_s}",
    "job_absent": "GPU {gpu}: it has the card and holds nothing on it",
    "and_more": "{found} (and so on {more} more)",
    "no_gpu": "it was given no GPU",
    "gpu_unknown": "{why}",
    "gpu_trouble": "GPU {gpu}: {trouble}",
    "load_unknown": "GPU {gpu}: whether anything ran is unknown: {why}",
    "job_cpu": "its processes used {load:.0%} of a core",
    "kernel_busy": "its notebook runs a cell",
    "kernel_active": "its notebook was last active {ago_s} ago",
    "url_busy": "{url} answered 200",
    "file_touched": "{path} was touched {ago_s} ago",
    "condition_unknown": "{condition} cannot be told: {why}",
    "condition_begins": "{condition} is not known yet: {why}",
    "quiet": "GPU {gpu}: nothing ran",
    "not_full": "GPU {gpu}: {load:.0%} utilization is no hang",
    "counters_show_work": "GPU {gpu}: the hardware counters show work ({counters})",
    "shows_work": "GPU {gpu}: {load:.0%} utilization, and the {signal} shows work ({reading})",
    "shows_no_work": "GPU {gpu}: {load:.0%} utilization, yet no work shows in {signals}",
    "bus_unknown": "GPU {gpu}: {load:.0%} utilization, and without the PCIe bus copies look like a hang ({why})",
    "signals_unknown": (
        "GPU {gpu}: {load:.0%} utilization, and neither power ({power}) nor counters ({counters}) is known"
    ),
    "hung": "{found}; for {for_s}",
    "hung_so_far": "{found}; for {for_s}, and stuck if that lasts for {after_s}",
    # What a job of a cluster does on its GPUs.
    "not_in_metrics": "GPU {gpu}: the metrics do not have it",
    "place_unclear": "GPU {gpu}: which one of the metrics it is cannot be told: {why}",
    "may_hold_more": "{gpu} may hold other GPUs: {why}",
    "some_not_in_metrics": "GPUs of {gpu}: the metrics have {found} of {count}",
    "no_process_there": "GPU {gpu}: the job holds it, and no process is on it",
    "no_memory_there": "GPU {gpu}: the job holds it, and only {used_bytes} of memory are in use on it",
    "held_without_process": "held by a job with no process on any of its {gpus} GPUs ({found})",
    "asked_for_more": "it holds {gpus} GPUs and has used {used} at once at most in {for_s}",
    # Why a job is warned, asked, killed or left alone.
    "idle": "idle for {for_s}: {readings}",
    "longer_idle": "it may be idle for {for_s} now: {readings}",
    "idle_and_wanted": "{readings}, and {waits}",
    "awaited": "{user} waits for GPU {gpu} with {program} (pid {pid})",
    "nobody_waits": "nobody waits for its GPUs",
    "stuck": "stuck for {for_s}: {readings}",
    "works": "{readings}",
    "still_there": "it was asked with SIG{signal} {for_s} ago and is still there",
    "would_be_asked": "it would have been asked with SIG{signal} {for_s} ago",
    "joined": "a process has joined it that was not warned",
    "not_covered": "the rule no longer covers it",
    "protected": "{protection}",
    "protected_user": "pid {pid} is {user}'s, and [protect] users has {user!r}",
    "protected_group": "pid {pid} is {user}'s, who is in a group that [protect] groups has: {group!r}",
    "groups_unknown": "pid {pid} is {user}'s, who may be in a protected group: {why}",
    "protected_command": "pid {pid} runs {program}, and [protect] commands has {pattern!r}",
    "owner_unknown": "the owner of pid {pid} is not known",
    "command_unknown": "the command of pid {pid} is not known, and some commands are protected",
    "owner_silent": "its owner cannot be asked: {why}",
    "owner_failed": "its owner did not stop it: {why}",
    "opted_out": "the environment of pid {pid} has FALLOW_PROTECT={text}",
    "protected_label": "the label {label}={text} of {owner} protects it",
    "label_unclear": "the label {label}={text} of {owner} cannot be read; write {example}",
    "protected_annotation": "the annotation {annotation}={text} of {owner} protects it",
    "annotation_unclear": "the annotation {annotation}={text} of {owner} cannot be read; write {example}",
    "protected_unit": "{owner} is protected by the config",
    "protected_notebook": "the folder of its notebook is protected by the config",
    "other_user": "pid {pid} below it is {user}'s, not {owner}'s",
    "fallow_itself": "pid {pid} is fallow's own, or fallow depends on it",
    "needs_root": "pid {pid} is {user}'s, and signalling it needs root",
    "by_hand": "stopped by hand by {user}",
    "not_idle": "it is not idle: {found}",
    "not_counted": "the rule {rule} does not count for how long it is idle: {why}",
    "idleness_unknown": "whether it is idle is not known: {why}",
    "rate_limit": "{count} were ended in the last {per_s}, and {most} may be",
    # Why a rule waits, or leaves a job of a cluster alone.
    "may_be_idle": "its people say that it may be idle for {for_s}",
    "first_hours": "it started {ago_s} ago, and the rule waits for {after_s}",
    "cluster_background": "it is a background job, which gives way when somebody needs its GPUs",
    "cluster_user": "[protect] users has {user!r}",
    "cluster_group": "{user} is in a group that [protect] groups has: {group!r}",
    "cluster_groups_unknown": "{user} may be in a protected group: {why}",
    "cluster_name": "it is called {name!r}, and [protect] commands has {pattern!r}",
    "no_way": "{why}",
    "came_back": "it was stopped before and came back; the rules only report it",
    "job_changed": "it is not the same job any more: {what}",
    "not_asked_again": "the engine cannot be asked again whether it is the same job: {why}",
    "readings_old": "what its GPUs did was read {ago_s} ago, and they may work by now",
    # Why a parked job is woken.
    "terminal_used": "{user} was at {place}",
    # Why a filler starts, waits and leaves.
    "nobody_there": "nobody there for {for_s}",
    "nobody_else": "nobody else is there",
    "makes_way": "another filler makes way for it",
    "occupied": "{process} is on GPU {gpu}",
    "opened": "{process} has opened {path}",
    "other_filler": "another filler is on GPU {gpu}: {filler}",
    "gpu_claimed": "GPU {gpu} is {claim}",
    "picked": "somebody picked GPU {gpu} moments ago",
    "something_ran": "something ran on GPU {gpu} in the last {seconds:.0f} s",
    "in_use": "GPU {gpu}: {found}",
    "comes_first": "{filler} comes first on {gpus}",
    "out_of_hours": "it is not between {first} and {last}",
    "user_there": "{user} was at {place} {ago_s} ago",
    "unknown": "unknown: {why}",
    "blind": "for {for_s} nobody could tell who is there: unknown: {why}",
    "leaving": "it is leaving",
    "left": "it is {how}",
    "too_slow": "it has not left within {after_s}",
    "ended": "it {end}",
    "end": "{how} after {for_s}; the next begins in {pause_s} at the earliest",
    "backoff": "the next begins in {in_s} at the earliest",
    "config_changed": "the config has changed",
    "fallow_ends": "fallow is ended",
    "not_read_yet": "the GPUs were not read yet",
    # Why a guard waits and acts.
    "waits_for_work": "waits for work; {found}",
    "worked": "work for {for_s}",
    "load_all": "the busiest GPU is at {load:.0%}",
    "load_any": "the least busy GPU is at {load:.0%}",
    "load_mean": "the GPUs are at {load:.0%} on average",
    "cpu": "the CPU is at {load:.0%}",
    "process_runs": "{name} runs (pid {pid})",
    "paused": "paused: {why}",
    "quiet_so_far": "quiet for {for_s} of {after_s}",
    "gpus_quiet": "the GPUs have been quiet for {for_s}",
    "gpus_stayed_quiet": "the GPUs stayed quiet",
    "done": "{action}: {outcome}",
    "all_done": "all is done",
    "failed": "failed to {action}: {outcome}",
    "again_in": "{found}; again in {pause_s}",
    "given_up": "{found}; given up",
    # Why a guard's action or a waking follows.
    "as_asked": "a person asked for it",
    # Why a GPU is not given.
    "not_listed": "not among --gpus",
    "hidden": "hidden by CUDA_VISIBLE_DEVICES",
    "not_suited": "the selector does not take it",
    "other_name": "it is a {name}",
    "reading_unknown": "{reading} is unknown: {why}",
    "taken": "{claim}",
    "given_back": "another launch had it, or tried it, a moment ago; try again",
    "in_line": "a launch came earlier and waits for it",
    "held": "held by {holders}",
    "unseen_memory": "{unseen_bytes} of its memory are held by no visible process",
    "too_busy": "{what} {load:.0%} is above {most:.0%}",
    "too_little_memory": "{free_bytes} of memory free, {needed_bytes} wanted",
    "file_refused": "{error} (its owner or root can remove it)",
    # Why another host answers nothing of use.
    "host_silent": "it did not answer within {limit_s}; see whether it is up",
    "host_unreachable": "ssh does not reach it: {why}",
    "host_without_fallow": "{program} cannot be run there ({why}); install fallow there, or name it in FALLOW_REMOTE",
    "host_does_not_take": "its fallow does not take that: {why}; if it is older than this one, update it",
    "host_other_version": "its fallow speaks version {version} of the JSON, this one {ours}; update the older one",
    "host_refuses": "its fallow refuses: {why}",
    "host_makes_no_sense": "its answer makes no sense: {why}; see what is run there as fallow",
    "host_was_slower": "somebody else was quicker there",
    # What a daemon with other kinds says.
    "told": "{sentence}",
}
_SHOWN: Mapping[str, Callable[[float], str]] = {
    "s": duration_for_people,
    "bytes": bytes_for_people,
    "processes": lambda count: "1 process" if count == 1 else f"{count} processes",
    "times": lambda count: "once" if count == 1 else f"{count} times",
}
"""How facts are shown, by the last word of their names."""


class Reason:
    """Why: a kind, and the facts that its sentence needs; one may be a reason too. Names in `_s` are seconds.

    It is a value, and one for each GPU and job is made at every tick, so it has no more than that needs.
    """

    __slots__ = ("facts", "kind")

    def __init__(self, kind: str, /, **facts: "str | float | Reason") -> None:
        self.kind = kind
        self.facts = facts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reason) and (self.kind, self.facts) == (other.kind, other.facts)

    def __hash__(self) -> int:
        return hash((self.kind, *self.facts.items()))

    def with_facts(self, **more: str) -> "Reason":
        """Return the same reason with more facts, which programs read and its sentence does not show."""
        return Reason(self.kind, **self.facts, **more)

    @property
    def plain_facts(self) -> dict[str, str | float]:
        """Return the facts for programs; a fact that is a reason as its sentence."""
        return {name: str(fact) if isinstance(fact, Reason) else fact for name, fact in self.facts.items()}

    def __repr__(self) -> str:
        return f"Reason({self.kind!r}, {self.facts!r})"

    def __str__(self) -> str:
        shown = {name: _shown(name, fact) for name, fact in self.plain_facts.items()}
        return SENTENCES[self.kind].format_map(shown)


class WithReason:
    """What has a reason, and says it to people."""

    reason: Reason

    @property
    def because(self) -> str:
        """Return the reason as a sentence."""
        return str(self.reason)


def _shown(name: str, fact: str | float) -> str | float:
    show = _SHOWN.get(name.rpartition("_")[2])
    return fact if show is None or isinstance(fact, str) else show(fact)
