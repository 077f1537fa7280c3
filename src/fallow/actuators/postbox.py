"""A process that sends one message to several addresses, and says what came of each.

The libraries for it take much memory, and a service may keep a line open for ever; both end with this process. What
to send comes on stdin: addresses hold passwords, and a command line is everybody's to read. It ends with its parent.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from threading import Thread

from fallow.actuators.helpers import Helpers
from fallow.actuators.hooks import SystemHooks
from fallow.actuators.processes import die_with_parent
from fallow.core.errors import CannotRun, CommandNotFound
from fallow.core.outcome import Outcome

_LIMIT_S = 30.0
"""Longer than a service may take, and an interpreter to start."""


def send(
    helpers: Helpers, environ: Mapping[str, str], parent: int, urls: Sequence[str], title: str, text: str
) -> list[Outcome]:
    """Send it from a process of its own; what came of each address, with none of its secrets."""
    order = json.dumps({"parent": parent, "urls": list(urls), "title": title, "text": text}).encode()
    try:
        ran = helpers.run([sys.executable, "-P", "-m", __name__], environ, _LIMIT_S, reads=order)
    except (CommandNotFound, CannotRun) as error:
        return [Outcome(False, f"no notice could be sent: {error}")] * len(urls)
    try:
        answers = [Outcome(bool(ok), str(words)) for ok, words in json.loads(ran.last_line)]
    except (ValueError, TypeError):
        answers = []
    # What else it said may repeat an address, and is not passed on.
    return answers if len(answers) == len(urls) else [Outcome(False, "the sending of a notice failed")] * len(urls)


def main() -> None:
    """Send what stdin says, to all at the same time."""
    order = json.load(sys.stdin)
    die_with_parent(order["parent"])
    hooks = SystemHooks(Helpers(lambda: 0.0))
    outcomes: dict[int, Outcome] = {}

    def tell(number: int, url: str) -> None:
        outcomes[number] = hooks.notify(url, order["title"], order["text"])

    threads = [Thread(target=tell, args=pair) for pair in enumerate(order["urls"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps([[outcomes[number].ok, outcomes[number].words] for number in sorted(outcomes)]))  # noqa: T201


if __name__ == "__main__":
    main()
