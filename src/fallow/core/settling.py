"""Decide when a GPU on which nothing runs is idle: once that has lasted, and then from its beginning.

    FREE, FILLED, BUSY, STUCK, UNKNOWN   are reported at once
    IDLE                                 is reported once nothing ran for SETTLING_S; until then it is BUSY, settling

    FREE, FILLED, BUSY or STUCK --nothing runs-->            BUSY, settling
    BUSY, settling --something runs-->                       BUSY
    BUSY, settling --nothing ran for SETTLING_S-->           IDLE, for as long as nothing ran
    BUSY, settling --not known, or a gap between readings--> settles again
    IDLE --not known, or a gap between readings-->           IDLE at the next quiet reading, for as long as before

Otherwise a job that works every third second would be called idle again and again, and a job that starts would be
called idle at once. At the first reading nothing has been seen to run, so a quiet GPU is idle then.

History has what was reported, so each stretch of idleness is SETTLING_S longer in `for_s` than in its hours.
"""

from fallow.core.activity import Activity, Finding
from fallow.core.reasons import Reason
from fallow.core.value import replace, value
from fallow.core.witnessed_time import witnessed_s

# More than the pauses of a job that works every ten seconds, less than the 14 s of which the driver keeps samples.
SETTLING_S = 12.0


@value
class Settling:
    """What is remembered of one GPU from reading to reading."""

    activity: Activity
    at_s: float
    for_s: float = 0.0
    """Witnessed seconds of this activity."""
    quiet_s: float = 0.0
    """Witnessed seconds for which it was held and nothing ran."""
    idle: bool = True
    """Whether the next quiet reading is idleness: nothing was seen to run, or it has settled."""
    settling: bool = False
    """Whether nothing runs, and it is not known yet whether that lasts."""


def settle(before: Settling | None, finding: Finding, at_s: float, longest_gap_s: float) -> tuple[Settling, Finding]:
    """Return the state and the finding of a GPU after one more reading."""
    if before is None:
        before = Settling(finding.activity, at_s)
    passed_s = witnessed_s(before.at_s, at_s, longest_gap_s)
    seen_on = passed_s > 0 or at_s == before.at_s
    if finding.activity is Activity.UNKNOWN:
        quiet_s = before.quiet_s if before.idle else 0.0
        now = Settling(finding.activity, at_s, quiet_s=quiet_s, idle=before.idle)
        return _lasting(before, now, passed_s), finding
    if finding.activity is not Activity.IDLE:
        return _lasting(before, Settling(finding.activity, at_s, idle=False), passed_s), finding
    quiet_s = before.quiet_s + passed_s if before.idle or seen_on else 0.0
    if before.idle or quiet_s >= SETTLING_S:
        return Settling(Activity.IDLE, at_s, quiet_s, quiet_s), finding
    now = Settling(Activity.BUSY, at_s, quiet_s=quiet_s, idle=False, settling=True)
    reason = Reason("settling", found=finding.reason, after_s=SETTLING_S)
    return _lasting(before, now, passed_s), Finding(Activity.BUSY, reason)


def _lasting(before: Settling, now: Settling, passed_s: float) -> Settling:
    return replace(now, for_s=before.for_s + passed_s) if before.activity is now.activity else now
