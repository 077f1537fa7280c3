"""`make bench`: what fallow costs beside the floor, in ratios measured in turns in one run.

Each part is a process of its own with a limit, so that none can hang the others. `python -m bench PART…` runs some.
"""

import importlib
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

# Each with its limit in seconds.
PARTS = {"start_up": 120, "hand_over": 60, "daemon": 240, "history": 90, "cluster": 120}


def main(words: list[str]) -> int:
    """Run the parts that are named, or all; fail if a promise is broken or a part does not come to its end."""
    unknown = [word for word in words if word not in PARTS]
    if unknown:
        print(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
        return 2
    began_s = time.monotonic()
    broken = [name for name in words or PARTS if not finished(name, PARTS[name])]
    told = f"BROKEN: {', '.join(broken)}" if broken else "all kept"
    print(f"\n{time.monotonic() - began_s:.0f} s in all; {told}")
    return 1 if broken else 0


def finished(name: str, limit_s: float) -> bool:
    """Whether a part came to its end in time with its promises kept. What it has started goes with it."""
    print(flush=True)
    with subprocess.Popen([sys.executable, "-m", "bench", "--part", name], start_new_session=True) as part:
        try:
            return part.wait(limit_s) == 0
        except subprocess.TimeoutExpired:
            print(f"  {name} has not ended within {limit_s:.0f} s: BROKEN", flush=True)
            return False
        finally:
            with suppress(ProcessLookupError):
                os.killpg(part.pid, signal.SIGKILL)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[:1] == ["--part"]:
        sys.exit(0 if importlib.import_module(f"bench.{arguments[1]}").main() else 1)
    sys.exit(main(arguments))
