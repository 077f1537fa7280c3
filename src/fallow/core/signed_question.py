"""Show that one knows a token without telling it: a question is signed with the token's hash, and with the time.

Who asks the page of another host cannot know who listens there. While its daemon does not run, any user of that host
can. A signature is good for one question, for some minutes and for reading alone, so nobody gains much by one.
"""

import hashlib
import hmac

SCHEME = "fallow-signed"
_LASTS_S = 300.0  # clocks of hosts differ
_LONGEST_TIME = 12


def hashed(token: str) -> bytes:
    """Return the hash by which a token is kept and compared."""
    return hashlib.sha256(token.encode(errors="replace")).digest()


def signature(token_hash: bytes, target: str, wall_s: float) -> str:
    """Return what shows that the asker knows the token, for a question that only reads."""
    moment = str(int(wall_s))
    return f"{moment}.{_sum(token_hash, target, moment)}"


def is_signed(token_hash: bytes, target: str, wall_s: float, shown: str) -> bool:
    """Return whether that was signed with this token, for this question and lately."""
    moment, _, given = shown.partition(".")
    is_right = hmac.compare_digest(_sum(token_hash, target, moment).encode(), given.encode(errors="replace"))
    is_time = moment.isascii() and moment.isdecimal() and len(moment) <= _LONGEST_TIME
    return is_right and is_time and abs(wall_s - int(moment)) <= _LASTS_S


def _sum(token_hash: bytes, target: str, moment: str) -> str:
    return hmac.new(token_hash, f"{moment} GET {target}".encode(errors="replace"), "sha256").hexdigest()
