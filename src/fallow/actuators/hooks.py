"""What people asked to be done when something happens: run a command, send a notice."""

from collections.abc import Callable, Mapping
from typing import Protocol
from urllib.parse import urlsplit

from fallow.actuators.helpers import Helpers
from fallow.actuators.processes import signal_name
from fallow.core.errors import CannotRun, CommandNotFound
from fallow.core.outcome import Outcome
from fallow.core.process import Ended
from fallow.core.units import program_name

_COMMAND_LIMIT_S = 86400.0  # an upload may take long; one that never ends must not keep the machine on for ever
_NOTICE_LIMIT_S = 15.0


class Hooks(Protocol):
    """Hands for what people asked for."""

    def run_command(self, line: str, environ: Mapping[str, str]) -> Outcome:
        """Run a line of shell."""

    def notify(self, url: str, title: str, text: str) -> Outcome:
        """Send a notice."""


class SystemHooks:
    """Runs commands and sends notices, both bounded in time."""

    def __init__(
        self,
        helpers: Helpers,
        *,
        command_limit_s: float = _COMMAND_LIMIT_S,
        notice_limit_s: float = _NOTICE_LIMIT_S,
    ) -> None:
        self._helpers = helpers
        self._command_limit_s = command_limit_s
        self._notice_limit_s = notice_limit_s

    def run_command(self, line: str, environ: Mapping[str, str]) -> Outcome:
        """In a shell, to its end; what runs on in the background is left alone."""
        name = program_name(line)  # what follows may hold a secret, and many read what came of it
        try:
            ran = self._helpers.run(["/bin/sh", "-c", line], environ, self._command_limit_s)
        except (CommandNotFound, CannotRun) as error:
            return Outcome(False, f"{name!r} was not run: {error}")
        said = f"; it said: {ran.last_line[:200]}" if ran.last_line else ""
        if ran.ended is None:
            return Outcome(False, f"{name!r} was killed after {self._command_limit_s:g} s{said}")
        return Outcome(ran.ok, f"{name!r} {_in_words(ran.ended)}{said}")

    def notify(self, url: str, title: str, text: str) -> Outcome:
        """Through Apprise, if it is installed and knows the address; else as JSON to a plain web address."""
        failure = _within(self._notice_limit_s, lambda: _send(url, title, text))
        to = _without_secrets(url)
        return Outcome(failure is None, f"told {to}" if failure is None else f"could not tell {to}: {failure}")


class RehearsedHooks:
    """Says what would be done, and does nothing."""

    def run_command(self, line: str, environ: Mapping[str, str]) -> Outcome:  # noqa: ARG002  the interface's
        """Only say it."""
        return Outcome(True, f"would run {program_name(line)!r}")

    def notify(self, url: str, title: str, text: str) -> Outcome:
        """Only say it."""
        return Outcome(True, f"would tell {_without_secrets(url)}: {title}: {text}")


def _send(url: str, title: str, text: str) -> str | None:
    """Why it could not be sent; None if it was."""
    from importlib import import_module  # noqa: PLC0415  only those who notify pay for it

    try:
        postbox = import_module("apprise").Apprise()
    except ImportError:
        postbox = None
    # Apprise logs what it could not deliver, addresses among it.
    import_module("logging").getLogger("apprise").disabled = True
    if postbox is not None and postbox.add(url):
        return None if postbox.notify(title=title, body=text) else "Apprise could not deliver it"
    if urlsplit(url).scheme in ("http", "https"):
        return _post(url, title, text)
    if postbox is None:
        return "such an address needs Apprise; try: pip install 'fallow[notices]'"
    return "Apprise does not know such an address"


def _post(url: str, title: str, text: str) -> str | None:
    """`text` alone is what Slack, Mattermost and Google Chat show of a message; others may want the title apart."""
    import json  # noqa: PLC0415  only those who notify pay for it
    from urllib.request import Request, urlopen  # noqa: PLC0415

    body = json.dumps({"title": title, "text": f"{title}: {text}"}).encode()
    request = Request(url, body, {"Content-Type": "application/json", "User-Agent": "fallow"})  # noqa: S310  http or https
    try:
        with urlopen(request, timeout=_NOTICE_LIMIT_S):  # noqa: S310  the same
            return None
    except OSError as error:  # URLError is one
        return str(error)


def _within(limit_s: float, send: Callable[[], str | None]) -> str | None:
    """Why it failed. A server can keep a line open for ever: a thread that still waits then is left behind."""
    from queue import Empty, SimpleQueue  # noqa: PLC0415  only those who notify pay for it
    from threading import Thread  # noqa: PLC0415

    answers: SimpleQueue[str | None] = SimpleQueue()

    def try_to() -> None:
        try:
            answers.put(send())
        except Exception as error:  # noqa: BLE001  a plugin of Apprise may raise anything; the notice failed, no more
            answers.put(f"it failed with {type(error).__name__}")  # what it says may repeat the address

    Thread(target=try_to, name="fallow-notice", daemon=True).start()
    try:
        return answers.get(timeout=limit_s)
    except Empty:
        return f"no answer in {limit_s:g} s"


def _in_words(ended: Ended) -> str:
    if ended.by_signal is None:
        return "ended well" if ended.code == 0 else f"ended with exit code {ended.code}"
    return f"died of {signal_name(ended.by_signal)}"


def _without_secrets(url: str) -> str:
    """Scheme and host. The rest of such a URL is often a password: it must not get into journals and logs."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the address"
    if parts.scheme in ("http", "https"):
        return f"{parts.scheme}://{parts.hostname}/…"
    return f"{parts.scheme}://…" if parts.scheme else "the address"
