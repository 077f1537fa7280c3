"""Ask the daemon of another host over HTTP, with its token; what it answers is bounded and checked."""

from collections.abc import Mapping

from fallow.core.api import VERSION
from fallow.core.reasons import Reason
from fallow.core.units import shortened
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.remote.ask import MOST_BYTES, WRONG_SHAPE, Facts, checked
from fallow.readers.remote_http import RemoteHttp

_OK = 200
_LONGEST = 200
TOO_LONG = "its answer is too long"


@value
class Host:
    """A host of the fleet, and how to ask it."""

    name: str
    http: RemoteHttp


def ask(host: Host, target: str, limit_s: float, most_bytes: int = MOST_BYTES) -> Facts | Reason:
    """Return the object that the daemon answers, or why there is none."""
    answer = host.http("GET", f"/api/v1{target}", {}, limit_s)
    if isinstance(answer, Unknown):
        return Reason("host_not_heard", why=shortened(answer.why, _LONGEST))
    if len(answer.body) > most_bytes:
        return Reason("host_makes_no_sense", why=TOO_LONG)
    try:
        facts = checked(answer.body)
    except WRONG_SHAPE as error:
        if answer.status != _OK:
            return Reason("host_answers", code=answer.status, why=f"see what serves {host.http}")
        return Reason("host_makes_no_sense", why=shortened(str(error), _LONGEST))
    if answer.status != _OK:
        return _refused(answer.status, facts)
    if facts.get("version") != VERSION:
        return Reason("host_other_version", version=shortened(str(facts.get("version")), 20), ours=VERSION)
    return facts


def _refused(code: int, facts: Mapping[str, object]) -> Reason:
    detail = shortened(str(facts.get("detail") or "it gives no reason"), _LONGEST)
    ways = {
        401: "; name its token as token_file, and see whether its clock is ours",
        421: "; add its name to hosts under [page] there",
    }
    return Reason("host_answers", code=code, why=f"{detail}{ways.get(code, '')}")
